import { test } from 'tap';
import { makeAttemptHash } from '../../../src/infra/crypto/attempt-hash.ts';
import { makeCallerHash } from '../../../src/infra/crypto/caller-hash.ts';

const SECRET = Buffer.alloc(32, 1);
const hash = makeAttemptHash(SECRET);

test('the same text is the same counter, on every replica with the secret', (t) => {
  t.equal(hash('account ada'), makeAttemptHash(Buffer.from(SECRET))('account ada'));
  t.not(hash('account ada'), hash('account adb'));
  t.not(hash('account ada'), makeAttemptHash(Buffer.alloc(32, 2))('account ada'));
  t.end();
});

test('the hash reveals nothing, holds no hash tag, and is no fingerprint', (t) => {
  t.match(hash('account ada'), /^[\w-]{22}$/);
  t.not(hash('192.0.2.1\0x'), makeCallerHash(SECRET)([192, 0, 2, 1], 'x'));
  t.end();
});
