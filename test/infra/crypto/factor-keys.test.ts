import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { makeSecretBox, parseFactorKeys } from '../../../src/infra/crypto/factor-keys.ts';
import { KeyError } from '../../../src/infra/crypto/keys.ts';

const [OLD, NEW] = [randomBytes(32), randomBytes(32)].map((key) => key.toString('base64url')) as [
  string,
  string,
];
const SECRET = randomBytes(20);
const box = (keys: string) => makeSecretBox(parseFactorKeys(keys));

test('the first key encrypts, and every loaded one decrypts', (t) => {
  const before = box(OLD).seal(7, SECRET);
  const after = box(`${NEW}, ${OLD}`);
  t.strictSame(after.open(7, before), SECRET);
  const sealed = after.seal(7, SECRET);
  t.strictSame([sealed.keyId, before.keyId], after.keyIds);
  t.notSame(after.seal(7, SECRET).secret, sealed.secret, 'with a nonce of its own');
  t.strictSame(box(NEW).open(7, sealed), SECRET);
  t.notOk(Buffer.from(sealed.secret).includes(SECRET));
  t.end();
});

test('a secret opens for its user only, unchanged, and with its key', (t) => {
  const both = box(`${NEW},${OLD}`);
  const sealed = both.seal(7, SECRET);
  const changed = Buffer.from(sealed.secret);
  changed.writeUInt8(changed.readUInt8(20) ^ 1, 20);
  const refusals = [
    () => both.open(8, sealed),
    () => both.open(7, { ...sealed, secret: changed }),
    () => both.open(7, { ...sealed, secret: sealed.secret.subarray(0, -1) }),
    () => both.open(7, { ...sealed, secret: new Uint8Array() }),
    () => both.open(7, { ...sealed, keyId: both.keyIds[1] ?? '' }),
    () => box(OLD).open(7, sealed),
    () => makeSecretBox([]).open(7, sealed),
  ];
  for (const refusal of refusals) t.throws(refusal, { code: 'unavailable', cause: { name: 'KeyError' } });
  t.end();
});

test('without a key nothing can be encrypted', (t) => {
  const none = makeSecretBox([]);
  t.equal(none.canSeal, false);
  t.throws(() => none.seal(7, SECRET), { code: 'factors_disabled' });
  t.end();
});

test('a key is 32 bytes in base64url, and stands there once', (t) => {
  const problems = {
    [randomBytes(31).toString('base64url')]: /key 1 has 31 bytes/,
    [`${OLD},${randomBytes(33).toString('base64url')}`]: /key 2 has 33 bytes/,
    [`${OLD},`]: /key 2 has 0 bytes/,
    [`${OLD}!`]: /key 1 is not base64url/,
    [`${OLD},${OLD}`]: /twice/,
  };
  for (const [keys, message] of Object.entries(problems)) {
    t.throws(() => parseFactorKeys(keys), { name: 'KeyError', message });
    t.throws(() => parseFactorKeys(keys), KeyError);
  }
  t.equal(parseFactorKeys(`${OLD}=`).length, 1, 'padding is accepted');
  t.end();
});
