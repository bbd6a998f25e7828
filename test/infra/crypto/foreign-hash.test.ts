import { pbkdf2Sync, scryptSync } from 'node:crypto';
import hashWasm from 'hash-wasm';
import { test } from 'tap';
import {
  costOfForeign,
  limitProblem,
  memoryOfRecipe,
  parseForeignHash,
} from '../../../src/infra/crypto/foreign-hash.ts';

const MiB = 1024 ** 2;
const salt = Buffer.from('0123456789abcdef');
const key = (bytes: number) =>
  pbkdf2Sync('x', salt, 1, bytes, 'sha256').toString('base64').replace(/=+$/, '');
const dotted = (base64: string) => base64.replaceAll('+', '.');
const saltText = salt.toString('base64').replace(/=+$/, '');

/** One hash of each format, with parameters of our choice. */
const argon2 = (m: number, t = 1, p = 1) => `$argon2id$v=19$m=${m},t=${t},p=${p}$${saltText}$${key(32)}`;
const scrypt = (ln: number, r = 8, p = 1) => `$scrypt$ln=${ln},r=${r},p=${p}$${saltText}$${key(32)}`;
const pbkdf2 = (iterations: number, bytes = 32) =>
  `$pbkdf2-sha256$${iterations}$${saltText}$${dotted(key(bytes))}`;
const bcrypt = async (costFactor: number) => {
  const hash = await hashWasm.bcrypt({ password: 'x', salt, costFactor: 4, outputType: 'encoded' });
  return hash.replace('$04$', `$${String(costFactor).padStart(2, '0')}$`);
};

const problemOf = (text: string, maxMemory = 128 * MiB) => {
  const hash = parseForeignHash(text);
  return hash ? limitProblem(hash, maxMemory) : 'unknown';
};

test('the cost of a hash is its algorithm with its parameters', async (t) => {
  const costs: [string, string][] = [
    [argon2(1024, 3, 4), 'argon2id 1024/3/4'],
    [`argon2${argon2(1024, 3, 4)}`, 'argon2id 1024/3/4'],
    [argon2(64).replace('argon2id', 'argon2d'), 'argon2d 64/1/1'],
    [scrypt(14), 'scrypt 14/8/1'],
    [`scrypt$16384$text$8$5$${key(64)}==`, 'scrypt 14/8/5'],
    [await bcrypt(12), 'bcrypt 12'],
    [pbkdf2(29_000), 'pbkdf2-sha256 29000'],
    [`pbkdf2_sha256$260000$text$${key(32)}=`, 'pbkdf2-sha256 260000'],
    [`$pbkdf2$1000$${saltText}$${dotted(key(20))}`, 'pbkdf2-sha1 1000'],
    [`$pbkdf2-sha512$1000$${saltText}$${dotted(key(64))}`, 'pbkdf2-sha512 1000'],
  ];
  for (const [text, cost] of costs) {
    const hash = parseForeignHash(text);
    t.equal(hash && costOfForeign(hash), cost);
  }
});

test('PBKDF2 repeats its iterations for each block of a longer key', (t) => {
  const hash = parseForeignHash(pbkdf2(27_500, 64));
  t.equal(hash && costOfForeign(hash), 'pbkdf2-sha256 55000');
  t.end();
});

test('parameters have upper bounds: memory, and the time that one login takes', async (t) => {
  const atLimit = [
    argon2(108 * 1024),
    argon2(64 * 1024, 28),
    argon2(512, 1, 64),
    scrypt(17),
    scrypt(10, 8, 16),
    scrypt(17, 8, 10),
    pbkdf2(10_000_000),
  ];
  for (const text of [...atLimit, await bcrypt(15)]) t.equal(problemOf(text), null, text);
  t.match(problemOf(argon2(108 * 1024 + 1)), /needs 129 MiB .* HASH_MEMORY allows 128 MiB/);
  t.match(problemOf(scrypt(18)), /needs 256 MiB/);
  for (const text of [scrypt(4_000_000_000), scrypt(16, 1), `scrypt$1$text$8$1$${key(64)}`])
    t.equal(problemOf(text), 'has parameters that scrypt does not take', text);
  t.match(problemOf(scrypt(1, 2 ** 17, 16)), /needs 256 MiB/, 'the blocks, if there are more of them');
  const slow = [
    argon2(64 * 1024, 29),
    scrypt(17, 8, 11),
    argon2(1024, 1, 65),
    scrypt(10, 8, 17),
    pbkdf2(10_000_001),
    pbkdf2(5_000_001, 64),
    await bcrypt(16),
    await bcrypt(31),
    await bcrypt(99),
    await bcrypt(3),
    await bcrypt(0),
    // Less than a lane needs.
    argon2(15, 1, 2),
  ];
  for (const text of slow) t.match(problemOf(text), /many seconds/, text);
  const large = parseForeignHash(argon2(64 * 1024));
  t.equal(large && memoryOfRecipe(large), 84 * MiB, 'with its thread');
  t.match(problemOf(await bcrypt(4), 20 * MiB - 1), /needs 20 MiB .* HASH_MEMORY allows 19 MiB/);
  t.equal(problemOf(pbkdf2(1), 0), null);
});

test('what is damaged, cut off or of another kind is not read', async (t) => {
  const good = [argon2(64), scrypt(4), pbkdf2(1), await bcrypt(4)];
  for (const text of good) {
    t.ok(parseForeignHash(text), text);
    for (const wrong of [` ${text}`, `${text} `, `${text}\n`, `${text}$`, text.slice(1), text.toUpperCase()])
      t.equal(parseForeignHash(wrong), null, JSON.stringify(wrong));
  }
  const wrong = [
    '',
    'x',
    '$',
    '$2b$',
    '$argon2id$',
    '{SSHA}abc',
    '$1$salt$md5',
    '$6$salt$sha512',
    'md5$salt$0cc175b9',
    argon2(64).replace('v=19', 'v=16'),
    argon2(64).replace('$v=19', ''),
    argon2(64).replace('m=64', 'm=064'),
    argon2(64).replace('m=64', 'm=-64'),
    argon2(64).replace('m=64', 'm=6.4e1'),
    argon2(64).replace('m=64', 'm=99999999999'),
    (await bcrypt(4)).replace('$2a$', '$2x$'),
    // Not a power of two.
    `scrypt$16383$text$8$1$${key(64)}`,
    `pbkdf2_sha256$1$te\0xt$${key(32)}`,
    // Too short a key, too short a salt, and too much of either.
    pbkdf2(1, 15),
    `$argon2id$v=19$m=64,t=1,p=1$${key(7)}$${key(32)}`,
    `$argon2id$v=19$m=64,t=1,p=1$${saltText}$${key(129)}`,
    `pbkdf2_sha256$1$${'x'.repeat(1025)}$${key(32)}`,
    `pbkdf2_sha256$1$${'x'.repeat(4000)}$${key(32)}`,
  ];
  t.ok(parseForeignHash(pbkdf2(1, 16)), 'the shortest key');
  for (const text of wrong) t.equal(parseForeignHash(text), null, JSON.stringify(text.slice(0, 80)));
});

test('salt and key are decoded as the libraries encode them', (t) => {
  const derived = scryptSync('x', salt, 32, { N: 16, r: 8, p: 1 });
  const text = `$scrypt$ln=4,r=8,p=1$${saltText}$${derived.toString('base64').replace(/=+$/, '')}`;
  const hash = parseForeignHash(text);
  t.strictSame(Buffer.from(hash?.salt ?? []), salt);
  t.strictSame(Buffer.from(hash?.key ?? []), derived);
  t.end();
});
