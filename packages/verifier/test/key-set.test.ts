import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { test, type Test } from 'tap';
import { makeKeySet } from '../src/key-set.ts';
import { unavailable } from '../src/verifier-error.ts';
import { aClock } from '../../../test/support/clock.ts';
import { until } from '../../../test/support/until.ts';

async function aKey(kid: string, algorithm = 'ES256'): Promise<JWK> {
  const { publicKey } = await generateKeyPair(algorithm, { extractable: true });
  return { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: 'sig' };
}

/** Keys over a JWKS that the test controls; null while Latchkey is down. */
function keysOf(t: Test, jwks: unknown) {
  const clock = aClock();
  const server = { jwks, asked: 0, answer: () => Promise.resolve() };
  const errors: (Error | null)[] = [];
  const keys = makeKeySet({
    clock,
    onLoad: (error) => errors.push(error),
    load: async () => {
      server.asked++;
      await server.answer();
      if (server.jwks === null) throw unavailable('unreachable', 'away');
      return server.jwks;
    },
  });
  t.teardown(() => {
    keys.close();
  });
  /** Resolves after the next load. */
  const loaded = () => until(() => errors.length > 0);
  return { clock, server, errors, keys, loaded };
}

test('reads the keys once at the start, and waits for them', async (t) => {
  const { keys, loaded, server } = keysOf(t, {
    keys: [await aKey('a'), await aKey('b', 'EdDSA'), await aKey('c', 'RS256')],
  });
  const found = await Promise.all(['a', 'b', 'c'].map((kid) => keys.find(kid)));
  t.strictSame(
    found.map((key) => key?.algorithm),
    ['ES256', 'EdDSA', 'RS256'],
  );
  await loaded();
  t.equal(server.asked, 1);
});

test('fetches once for a new kid that concurrent calls ask for', async (t) => {
  const { keys, loaded, server, clock } = keysOf(t, { keys: [await aKey('a')] });
  await loaded();
  server.jwks = { keys: [await aKey('a'), await aKey('b')] };
  clock.pass(1000);
  const found = await Promise.all([keys.find('b'), keys.find('b'), keys.find('a')]);
  t.notOk(found.includes(null));
  t.equal(server.asked, 2);
});

test('unknown kids cost at most one fetch a second', async (t) => {
  const { keys, loaded, server, clock } = keysOf(t, { keys: [await aKey('a')] });
  await loaded();
  for (let i = 0; i < 50; i++) t.equal(await keys.find(`unknown-${i}`), null);
  t.equal(server.asked, 1);
  clock.pass(999);
  t.equal(await keys.find('unknown'), null);
  t.equal(server.asked, 1);
  clock.pass(1);
  t.equal(await keys.find('unknown'), null);
  t.equal(server.asked, 2);
});

test('while Latchkey is down, keys already read stay, and an unknown kid is unavailable', async (t) => {
  const { keys, loaded, server, clock } = keysOf(t, { keys: [await aKey('a')] });
  await loaded();
  server.jwks = null;
  for (let hour = 0; hour < 3; hour++) {
    clock.pass(3_600_000);
    await t.rejects(keys.find('b'), { code: 'unavailable' });
    t.ok(await keys.find('a'));
  }
});

test('an invalid key set does not replace a valid one', async (t) => {
  const good = { keys: [await aKey('a')] };
  const { keys, loaded, server, clock } = keysOf(t, good);
  await loaded();
  for (const jwks of [
    {},
    { keys: [] },
    { keys: 'none' },
    { keys: [null, 7] },
    { keys: [{ kid: 'a', alg: 'ES256' }] },
  ]) {
    server.jwks = jwks;
    clock.pass(1000);
    await t.rejects(keys.find('b'), { code: 'unavailable' }, JSON.stringify(jwks));
    t.ok(await keys.find('a'));
  }
});

test('the next fetch forgets a removed key', async (t) => {
  const { keys, loaded, server, clock } = keysOf(t, { keys: [await aKey('a'), await aKey('b')] });
  await loaded();
  server.jwks = { keys: [await aKey('b')] };
  clock.pass(1000);
  await keys.find('unknown');
  t.equal(await keys.find('a'), null);
});

test('ignores keys of other kinds or uses, secret keys and keys without a kid', async (t) => {
  const good = await aKey('good');
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const others: object[] = [
    { ...good, kid: 'encrypts', use: 'enc' },
    { ...good, kid: 'unnamed algorithm', alg: undefined },
    await aKey('another algorithm', 'ES384'),
    { kty: 'oct', k: 'c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0', kid: 'shared', alg: 'HS256' },
    { kty: 'oct', k: 'c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0', kid: 'shared', alg: 'ES256' },
    { ...(await exportJWK(privateKey)), kid: 'private', alg: 'ES256' },
    { ...good, kid: undefined },
  ];
  const { keys } = keysOf(t, { keys: [...others, good] });
  t.ok(await keys.find('good'));
  for (const kid of ['encrypts', 'unnamed algorithm', 'another algorithm', 'shared', 'private', 'undefined'])
    t.equal(await keys.find(kid), null, kid);
});

test('retries until Latchkey answers, and reports both', async (t) => {
  const { keys, server, errors } = keysOf(t, null);
  await t.rejects(keys.find('a'), { code: 'unavailable' });
  server.jwks = { keys: [await aKey('a')] };
  await until(() => errors.at(-1) === null);
  t.ok(await keys.find('a'));
  t.equal(server.asked, 2);
  t.match(errors, [{ message: 'away' }, null]);
});

test('an unreadable key does not hide the others', async (t) => {
  const broken = { ...(await aKey('broken')), x: 'no coordinate' };
  const { keys, loaded } = keysOf(t, { keys: [broken, await aKey('good')] });
  await loaded();
  t.notSame(await keys.find('good'), null);
  t.equal(await keys.find('broken'), null);
});

test('a reload keeps the objects of keys that did not change, so that cached tokens stay', async (t) => {
  const [stays, changes] = [await aKey('a'), await aKey('b')];
  const { keys, loaded, server, clock } = keysOf(t, { keys: [stays, changes] });
  await loaded();
  const before = [keys.loaded('a'), keys.loaded('b')];
  server.jwks = { keys: [{ ...stays }, await aKey('b')] };
  clock.pass(1000);
  await keys.find('unknown');
  t.ok(before[0]);
  t.equal(keys.loaded('a'), before[0]);
  t.not(keys.loaded('b'), before[1], 'another key under the same kid');
  t.equal(keys.loaded('unknown'), undefined);
});

test('the failure to load says why, and quotes no foreign message', async (t) => {
  const { keys, server } = keysOf(t, null);
  await t.rejects(keys.find('a'), { code: 'unavailable', reason: 'unreachable', message: 'no keys: away' });
  server.answer = () => Promise.reject(new TypeError('https://user:secret@host'));
  await until(async () => (await keys.find('a').then(String, String)).includes('TypeError'));
  await t.rejects(keys.find('a'), { reason: 'fault', message: 'no keys: TypeError' });
});
