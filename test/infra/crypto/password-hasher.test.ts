import { createHash, pbkdf2Sync } from 'node:crypto';
import hashWasm from 'hash-wasm';
import { test, type Test } from 'tap';
import { IMITATED_LENGTH, makePasswordHasher } from '../../../src/infra/crypto/password-hasher.ts';
import { hashThatNothingOpens } from '../../../src/infra/crypto/scrypt-hasher.ts';
import { LONG_TWIN, SHORT_TWIN } from '../../support/users-file.ts';

const COST = { logN: 4, r: 8, p: 1 };
const hasher = makePasswordHasher(COST, 28 * 1024 ** 2);
const salt = Buffer.from('0123456789abcdef');

const bcryptHash = (password: string | Uint8Array, costFactor = 4) =>
  hashWasm.bcrypt({ password, salt, costFactor, outputType: 'encoded' });
const argon2Hash = (password: string, memorySize = 256) =>
  hashWasm.argon2id({
    password,
    salt,
    memorySize,
    iterations: 1,
    parallelism: 1,
    hashLength: 32,
    outputType: 'encoded',
  });

test('our own hashes are verified in normal form, and those of other systems in one form a try', async (t) => {
  // ﬁ is two letters in NFKC.
  const [sent, nfc, nfkc] = ['pa\u0308ss \ufb01', 'p\u00e4ss \ufb01', 'p\u00e4ss fi'];
  const own = await hasher.hash(nfc);
  for (const earlier of [0, 1, 2]) t.equal(await hasher.verify(own, sent, earlier), true);
  const started = countWorkers(t);
  for (const [place, form] of [sent, nfc, nfkc].entries()) {
    const foreign = Buffer.from(await argon2Hash(form));
    for (let earlier = 0; earlier < 6; earlier++)
      t.equal(await hasher.verify(foreign, sent, earlier), earlier % 3 === place, `${place}, try ${earlier}`);
  }
  t.equal(started(), 18, 'one hash a try');
  const foreign = Buffer.from(await argon2Hash('plain'));
  for (const earlier of [0, 1, 2]) t.equal(await hasher.verify(foreign, 'plain', earlier), true);
});

test('a hash of an unknown format or above the limits is never computed', async (t) => {
  const started = countWorkers(t);
  const above = Buffer.from((await argon2Hash('x')).replace('m=256', 'm=8193'));
  t.equal(hasher.costOf(above), null);
  await t.rejects(hasher.verify(above, 'x'), /HASH_MEMORY allows 28 MiB/);
  for (const text of ['', 'plain text', '$1$md5$crypt']) {
    t.equal(hasher.costOf(Buffer.from(text)), null);
    await t.rejects(hasher.verify(Buffer.from(text), 'x'), /no known format/);
  }
  t.equal(started(), 0);
});

test('bcrypt and argon2 run in a thread of their own, and the event loop goes on', async (t) => {
  const started = countWorkers(t);
  const hash = Buffer.from(await bcryptHash('x', 10));
  let turns = 0;
  let isDone = false;
  const turn = () => {
    turns++;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  t.equal(await hasher.verify(hash, 'x'), true);
  isDone = true;
  t.equal(started(), 1);
  // Computed here, it would let two or three turns pass.
  t.ok(turns > 50, `${turns} turns of the event loop meanwhile`);
  await hasher.imitate('argon2id 256/1/1', 'x');
  await hasher.imitate('bcrypt 4', 'x');
  t.equal(started(), 3, 'imitations take the same path');
});

test('every failure does equal work, for all costs that are stored', (t) => {
  const all = [
    'scrypt 4/8/1',
    'scrypt 5/8/1',
    'bcrypt 4',
    'bcrypt 5',
    'argon2id 256/1/1',
    'pbkdf2-sha256 1000',
    'pbkdf2-sha256 2500',
    'pbkdf2-sha512 700',
    'pbkdf2-sha1 900',
    'phpass 7',
    'salted-sha1 1',
  ];
  /** PBKDF2's iterations add up. */
  const work = (costs: string[]) => {
    const sums = new Map<string, number>();
    for (const cost of costs) {
      const [, digest = '', count] = /^(pbkdf2-\w+) (\d+)$/.exec(cost) ?? [];
      const key = digest || cost;
      sums.set(key, (sums.get(key) ?? 0) + Number(count ?? 1));
    }
    return [...sums].map(([key, sum]) => `${key}=${sum}`).sort();
  };
  const unknown = work(hasher.toImitate(all, null));
  t.strictSame(unknown, [
    'argon2id 256/1/1=1',
    'bcrypt 4=1',
    'bcrypt 5=1',
    'pbkdf2-sha1=900',
    'pbkdf2-sha256=2500',
    'pbkdf2-sha512=700',
    'phpass 7=1',
    'salted-sha1 1=1',
    'scrypt 4/8/1=1',
    'scrypt 5/8/1=1',
  ]);
  for (const done of all) t.strictSame(work([done, ...hasher.toImitate(all, done)]), unknown, done);
  t.end();
});

test('what is imitated has the cost that was asked for', async (t) => {
  t.ok(createHash('sha1').digest().length >= IMITATED_LENGTH, 'one block of the shortest digest');
  for (const cost of [
    'pbkdf2-sha1 10',
    'pbkdf2-sha256 10',
    'pbkdf2-sha512 10',
    'scrypt 4/8/1',
    'argon2i 64/2/2',
    'phpass 7',
    'salted-sha1 1',
    'salted-sha512 1',
  ])
    await t.resolves(hasher.imitate(cost, 'x'), cost);
  await t.rejects(hasher.imitate('bcrypt 3', 'x'), /Cost factor/, 'an impossible one reaches the library');
});

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

test('a hash that opens for other passwords too is not replaced by one that does not', async (t) => {
  const pbkdf2 = (digest: 'sha1' | 'sha256' | 'sha512', password: string) => {
    const key = pbkdf2Sync(password, salt, 1, 20, digest).toString('base64').replace(/=+$/, '');
    const text = salt.toString('base64').replace(/=+$/, '');
    return `$pbkdf2${digest === 'sha1' ? '' : `-${digest}`}$1$${text}$${key.replaceAll('+', '.')}`;
  };
  const [at71, at72] = ['x'.repeat(71), 'x'.repeat(72)];
  const cases: [hash: string, password: string, other: string | null][] = [
    [await bcryptHash(at71), at71, null],
    [await bcryptHash(at72), at72, `${at72} with more`],
    [await bcryptHash(at72), `${at72} and a typo`, at72],
    [await bcryptHash('\u00e4'.repeat(36)), '\u00e4'.repeat(36), '\u00e4'.repeat(37)],
    [await bcryptHash('ab'), 'ab\0ab', 'ab'],
    [`bcrypt_sha256$${await bcryptHash(sha256(at72))}`, at72, null],
    [pbkdf2('sha1', LONG_TWIN), LONG_TWIN, SHORT_TWIN],
    [pbkdf2('sha1', at72), at72, null],
    [pbkdf2('sha256', LONG_TWIN), LONG_TWIN, null],
    [pbkdf2('sha512', LONG_TWIN), LONG_TWIN, null],
    [await argon2Hash(at72), at72, null],
  ];
  for (const [text, password, other] of cases) {
    const stored = Buffer.from(text);
    t.equal(await hasher.verify(stored, password), true, text);
    if (other !== null) t.equal(await hasher.verify(stored, other), true, 'the other password opens it too');
    t.equal(hasher.isOutdated(stored, password), other === null, `${text} for ${password}`);
  }
  t.equal(hasher.isOutdated(hashThatNothingOpens(COST), at72), false);
  t.equal(hasher.isOutdated(hashThatNothingOpens({ ...COST, p: 2 }), 'x'), true);
});

/** How many threads have been started since. */
function countWorkers(t: Test): () => number {
  let count = 0;
  const note = () => {
    count++;
  };
  process.on('worker', note);
  t.teardown(() => process.off('worker', note));
  return () => count;
}
