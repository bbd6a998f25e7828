import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { hashSecret, isHashOf, newServiceId, newSecret } from '../../../src/domain/services/secret.ts';

test('a secret has 256 bits, an id 128, and neither needs escaping', (t) => {
  for (const [make, form, bytes] of [
    [newSecret, /^lks_[A-Za-z0-9_-]{43}$/, 32],
    [newServiceId, /^lkc_[A-Za-z0-9_-]{22}$/, 16],
  ] as const) {
    const asked: number[] = [];
    const made = make((size) => {
      asked.push(size);
      return randomBytes(size);
    });
    t.match(made, form);
    t.equal(encodeURIComponent(made), made);
    t.strictSame(asked, [bytes]);
    t.not(make(randomBytes), make(randomBytes));
  }
  t.end();
});

test('only the newest secret and the previous one are good', (t) => {
  const isSecretOf = (client: Parameters<typeof isHashOf>[0], secret: string) =>
    isHashOf(client, hashSecret(secret));
  const [newest, previous, older] = ['lks_c', 'lks_b', 'lks_a'];
  const rotating = { secretHash: hashSecret(newest), previousHash: hashSecret(previous) };
  const settled = { ...rotating, previousHash: null };
  t.equal(isSecretOf(rotating, newest), true);
  t.equal(isSecretOf(rotating, previous), true);
  t.equal(isSecretOf(settled, newest), true);
  t.equal(isSecretOf(settled, previous), false);
  for (const secret of [older, '', newest.slice(0, -1), `${newest} `, newest.toUpperCase()]) {
    t.equal(isSecretOf(rotating, secret), false, secret);
    t.equal(isSecretOf(undefined, secret), false, secret);
  }
  t.equal(
    isSecretOf(settled, Buffer.from(settled.secretHash).toString('hex')),
    false,
    'the hash is not a secret',
  );
  t.end();
});

test('a hash is SHA-256 of the text', (t) => {
  t.equal(
    hashSecret('abc').toString('hex'),
    'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
  );
  t.end();
});
