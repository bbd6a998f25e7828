import { test } from 'tap';
import { hashMemory, makeScryptHasher } from '../../../src/infra/crypto/scrypt-hasher.ts';

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

test('a hash opens to its own password and to no other', async (t) => {
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

test('a hash of other parameters still opens, and is outdated', async (t) => {
  const hash = await makeScryptHasher({ logN: 5, r: 8, p: 2 }).hash('difference engine');
  t.equal(await hasher.verify(hash, 'difference engine'), true);
  t.equal(hasher.isOutdated(hash), true);
  t.equal(hasher.isOutdated(await hasher.hash('difference engine')), false);
});

test('a stored hash that asks for too much is refused before anything is computed', async (t) => {
  for (const [logN, r, p] of [
    [21, 8, 1],
    [255, 8, 1],
    [4, 2 ** 27, 1],
    [4, 8, 17],
    [4, 0, 1],
    [0, 8, 1],
  ] as const) {
    await t.rejects(hasher.verify(await withParameters(logN, r, p), 'x'), /cost beyond/, `${logN}/${r}/${p}`);
  }
});

test('what a hash takes is 128 bytes, N times, r times', (t) => {
  t.equal(hashMemory({ logN: 17, r: 8 }), 128 * 1024 ** 2);
  t.end();
});
