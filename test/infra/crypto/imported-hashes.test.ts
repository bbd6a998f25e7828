// suite: e2e, release
import { test } from 'tap';
import { makeReadHash } from '../../../src/infra/crypto/new-stored-hash.ts';
import { makePasswordHasher } from '../../../src/infra/crypto/password-hasher.ts';
import { translateHash } from '../../../src/infra/crypto/translate-hash.ts';
import { djangoScryptHash, djangoScryptMissing, foreignHashes, hashersMissing } from './foreign-hashes.ts';

const skip = hashersMissing();
const COST = { logN: 4, r: 8, p: 1 };
const MEMORY = 128 * 1024 ** 2;
const hasher = makePasswordHasher(COST, MEMORY);
const readHash = makeReadHash(COST, MEMORY);

const PASSWORDS = {
  plain: 'correct horse battery staple',
  // Decomposed: the other system never normalised it.
  'not normalised': 'Zoë’s pa\u0308sswo\u0308rd 𝄞 €',
  // bcrypt reads 72 bytes, the others all.
  'of 100 bytes': 'x'.repeat(99) + 'y',
};

for (const [kind, password] of Object.entries(PASSWORDS))
  test(
    `hashes of a password ${kind} by Django, passlib, bcrypt and argon2 open for it and no other`,
    { skip },
    async (t) => {
      const hashes = foreignHashes(password);
      t.equal(Object.keys(hashes).length, 21);
      for (const [name, text] of Object.entries(hashes)) {
        const hash = name === 'django bcrypt' ? text.replace('bcrypt$', '') : text;
        t.match(readHash(text), { ok: true, value: { imported: { hash } } }, name);
        const stored = Buffer.from(hash);
        // phpBB, whose format this is, would have normalised the password: it is compared as it was sent at the next try.
        const earlier = name === 'passlib phpass H' && password !== password.normalize() ? 1 : 0;
        t.equal(await hasher.verify(stored, password, earlier), true, `${name} opens`);
        t.equal(await hasher.verify(stored, `X${password}`, earlier), false, `${name} stays closed`);
        t.equal(hasher.isOutdated(stored, 'short'), true, `${name} is hashed anew`);
      }
    },
  );

test("Django's scrypt opens for its password and no other", { skip: djangoScryptMissing() }, async (t) => {
  const password = PASSWORDS['not normalised'];
  const text = djangoScryptHash(password);
  t.match(readHash(text), { ok: true, value: { imported: { cost: /^scrypt 14\/8\/\d+$/ } } });
  t.equal(await hasher.verify(Buffer.from(text), password), true);
  t.equal(await hasher.verify(Buffer.from(text), 'other'), false);
});

test("Keycloak's two JSON texts become the formats of passlib and argon2", { skip }, (t) => {
  const hashes = foreignHashes(PASSWORDS.plain);
  // The same key and salt in Keycloak's own layout: base64 with padding, in JSON inside JSON.
  for (const name of ['passlib pbkdf2', 'passlib pbkdf2-sha256', 'passlib pbkdf2-sha512']) {
    const text = hashes[name] ?? '';
    const [, algorithm, iterations, salt = '', value = ''] = text.split('$');
    const padded = (base64: string) => Buffer.from(base64.replaceAll('.', '+'), 'base64').toString('base64');
    const credentialData = JSON.stringify({ hashIterations: Number(iterations), algorithm });
    const secretData = JSON.stringify({ value: padded(value), salt: padded(salt) });
    t.equal(translateHash({ type: 'password', credentialData, secretData }), text);
    t.match(readHash({ credentialData, secretData }), { ok: true, value: { imported: { hash: text } } });
  }
  const text = hashes['argon2-cffi'] ?? '';
  const [, , , , salt, value] = text.split('$');
  const credential = {
    credentialData: {
      hashIterations: 2,
      algorithm: 'argon2',
      additionalParameters: {
        hashLength: ['16'],
        memory: ['102400'],
        type: ['id'],
        version: ['1.3'],
        parallelism: ['8'],
      },
    },
    secretData: { value: `${value ?? ''}==`, salt: `${salt ?? ''}==` },
  };
  t.equal(translateHash(credential), text);
  t.end();
});
