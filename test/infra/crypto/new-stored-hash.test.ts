import { test } from 'tap';
import { hashAsText, makeReadHash } from '../../../src/infra/crypto/new-stored-hash.ts';
import { hashThatNothingOpens } from '../../../src/infra/crypto/scrypt-hasher.ts';

const read = makeReadHash({ logN: 4, r: 8, p: 1 }, 128 * 1024 ** 2);
const exported = (logN: number, r = 8, p = 1) => hashAsText(hashThatNothingOpens({ logN, r, p }));

test('a hash that we exported has the limits of all others', (t) => {
  for (const cost of [exported(17), exported(10, 8, 16), exported(17, 8, 10)])
    t.equal(read(cost).ok, true, cost);
  t.match(read(exported(18)), { ok: false, message: /needs 256 MiB .* HASH_MEMORY allows 128 MiB/ });
  t.match(read(exported(17, 8, 11)), { ok: false, message: /many seconds/ });
  t.match(read(exported(16, 1)), { ok: false, message: /parameters that scrypt does not take/ });
  t.match(read(exported(17).replace(/.$/, '')), { ok: false });
  t.end();
});
