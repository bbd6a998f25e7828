import { test } from 'tap';
import { readAddress } from '../../../src/http/caller/address.ts';
import { makeCallerHash, makeAttemptHash } from '../../../src/infra/crypto/keyed-hashes.ts';

/** As a request brings the address. */
function hash(address: string, userAgent: string, secret = 1): string {
  const parts = readAddress(address)?.parts ?? [];
  return makeCallerHash(Buffer.alloc(32, secret))(parts, userAgent);
}

test('a replica of an earlier release computes the same hash', (t) => {
  t.equal(hash('192.0.2.1', 'curl/8'), 'Vev4GVtbl3wSKY73kJBBuk');
  t.equal(hash('2001:db8:0:1::5', 'x'), '3MCdrOgEOjuwZbfTodExlr');
  t.end();
});

test('the same address and User-Agent are the same client', (t) => {
  t.equal(hash('192.0.2.1', 'curl/8'), hash('192.0.2.1', 'curl/8'));
  t.not(hash('192.0.2.1', 'curl/8'), hash('192.0.2.2', 'curl/8'));
  t.not(hash('192.0.2.1', 'curl/8'), hash('192.0.2.1', 'curl/9'));
  t.end();
});

test('an IPv6 address counts by its /64, in any notation', (t) => {
  const client = hash('2001:db8:0:1::5', 'x');
  for (const same of ['2001:db8:0:1:ffff:ffff:ffff:ffff', '2001:0DB8::1:0:0:0:1', '2001:db8:0:1::5%eth0']) {
    t.equal(hash(same, 'x'), client, same);
  }
  for (const other of ['2001:db8:0:2::5', '2001:db8::5', '::1']) t.not(hash(other, 'x'), client, other);
  t.equal(hash('::ffff:192.0.2.1', 'x'), hash('192.0.2.1', 'x'), 'a mapped IPv4 address is that address');
  t.end();
});

test('the hash reveals neither, and depends on the secret', (t) => {
  t.match(hash('192.0.2.1', 'curl/8'), /^[\w-]{22}$/);
  t.not(hash('192.0.2.1', 'curl/8'), hash('192.0.2.1', 'curl/8', 2));
  t.end();
});

const SECRET = Buffer.alloc(32, 1);
const attemptHash = makeAttemptHash(SECRET);

test('the same text is the same counter, on every replica with the secret', (t) => {
  t.equal(attemptHash('account ada'), makeAttemptHash(Buffer.from(SECRET))('account ada'));
  t.not(attemptHash('account ada'), attemptHash('account adb'));
  t.not(attemptHash('account ada'), makeAttemptHash(Buffer.alloc(32, 2))('account ada'));
  t.end();
});

test('the hash reveals nothing, holds no hash tag, and is no fingerprint', (t) => {
  t.match(attemptHash('account ada'), /^[\w-]{22}$/);
  t.not(attemptHash('192.0.2.1\0x'), makeCallerHash(SECRET)([192, 0, 2, 1], 'x'));
  t.end();
});
