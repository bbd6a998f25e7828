import { createHash } from 'node:crypto';
import * as scryptKdf from 'scrypt-kdf';
import { test } from 'tap';
import { hashMemory, makeScryptHasher } from '../../../src/infra/crypto/scrypt-hasher.ts';

type Verify = (key: Uint8Array, password: string) => Promise<boolean>;
// See scrypt-hasher.ts: the package's types describe its default export wrongly.
const Scrypt = (scryptKdf as unknown as { default: { verify: Verify } }).default;
const hasher = makeScryptHasher({ logN: 4, r: 8, p: 1 });

/** A hash whose header asks for other parameters: the layout of scrypt-kdf's 96 bytes. */
async function withParameters(logN: number, r: number, p: number): Promise<Uint8Array> {
  const hash = await hasher.hash('difference engine');
  const view = new DataView(hash.buffer, hash.byteOffset);
  view.setUint8(7, logN);
  view.setUint32(8, r);
  view.setUint32(12, p);
  return hash;
}

test('a hash matches its own password and no other', async (t) => {
  const hash = await hasher.hash('difference engine');
  t.equal(hash.length, 96);
  t.equal(await hasher.verify(hash, 'difference engine'), true);
  t.equal(await hasher.verify(hash, 'Difference engine'), false);
  t.not(
    Buffer.from(hash),
    Buffer.from(await hasher.hash('difference engine')),
    'every hash has a salt of its own',
  );
});

test('a hash with other parameters still matches, and is outdated', async (t) => {
  const hash = await makeScryptHasher({ logN: 5, r: 8, p: 2 }).hash('difference engine');
  t.equal(await hasher.verify(hash, 'difference engine'), true);
  t.equal(hasher.isOutdated(hash), true);
  t.equal(hasher.isOutdated(await hasher.hash('difference engine')), false);
});

test('a stored hash with excessive parameters is refused before any computation', async (t) => {
  for (const [logN, r, p] of [
    [21, 8, 1],
    [255, 8, 1],
    [4, 2 ** 27, 1],
    [4, 8, 17],
    [4, 0, 1],
    [0, 8, 1],
  ] as const) {
    const hash = await withParameters(logN, r, p);
    await t.rejects(hasher.verify(hash, 'x'), /above the limit/, `${logN}/${r}/${p}`);
    t.equal(hasher.costOf(hash), null);
  }
});

test('the work of a check is possible without a stored hash', async (t) => {
  const old = makeScryptHasher({ logN: 5, r: 9, p: 2 });
  const hash = await old.hash('difference engine');
  const cost = hasher.costOf(hash) ?? '';
  t.equal(cost, old.cost);
  t.not(cost, hasher.cost);
  const spied = Scrypt.verify;
  t.teardown(() => {
    Scrypt.verify = spied;
  });
  let imitated: Uint8Array = new Uint8Array();
  Scrypt.verify = (key, password) => {
    imitated = key;
    return spied(key, password);
  };
  await hasher.imitate(cost, 'difference engine');
  t.equal(hasher.costOf(imitated), cost);
  t.equal(imitated.length, 96);
  // A checksum of the first 48 bytes: without it scrypt-kdf computes nothing.
  const checksum = createHash('sha256').update(imitated.subarray(0, 48)).digest().subarray(0, 16);
  t.strictSame(Buffer.from(imitated.subarray(48, 64)), checksum);
  t.equal(await spied(imitated, 'difference engine'), false);
});

test('a hash needs 128 * N * r bytes', (t) => {
  t.equal(hashMemory({ logN: 17, r: 8 }), 128 * 1024 ** 2);
  t.end();
});
