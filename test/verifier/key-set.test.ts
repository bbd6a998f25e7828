import { exportJWK, generateKeyPair, type JWK } from 'jose';
import { test, type Test } from 'tap';
import { makeKeySet } from '../../src/verifier/key-set.ts';
import { aClock } from '../support/clock.ts';
import { until } from '../support/until.ts';

async function aKey(kid: string, algorithm = 'ES256'): Promise<JWK> {
  const { publicKey } = await generateKeyPair(algorithm, { extractable: true });
  return { ...(await exportJWK(publicKey)), kid, alg: algorithm, use: 'sig' };
}

/** Keys over a JWKS that the test holds; null for a Latchkey that is away. */
function keysOf(t: Test, jwks: unknown) {
  const clock = aClock();
  const server = { jwks, asked: 0, answer: () => Promise.resolve() };
  const errors: (Error | null)[] = [];
  const keys = makeKeySet({
    clock,
    onError: (error) => errors.push(error),
    load: async () => {
      server.asked++;
      await server.answer();
      if (server.jwks === null) throw new Error('away');
      return server.jwks;
    },
  });
  t.teardown(() => {
    keys.close();
  });
  return { clock, server, errors, keys };
}

test('reads the keys at the start, once, and waits for them', async (t) => {
  const { keys, server } = keysOf(t, {
    keys: [await aKey('a'), await aKey('b', 'EdDSA'), await aKey('c', 'RS256')],
  });
  const found = await Promise.all(['a', 'b', 'c'].map((kid) => keys.find(kid)));
  t.strictSame(
    found.map((key) => key?.algorithm),
    ['ES256', 'EdDSA', 'RS256'],
  );
  await keys.ready();
  t.equal(server.asked, 1);
});

test('looks again for a kid that is new, once for all who ask', async (t) => {
  const { keys, server, clock } = keysOf(t, { keys: [await aKey('a')] });
  await keys.ready();
  server.jwks = { keys: [await aKey('a'), await aKey('b')] };
  clock.pass(1000);
  const found = await Promise.all([keys.find('b'), keys.find('b'), keys.find('a')]);
  t.notOk(found.includes(null));
  t.equal(server.asked, 2);
});

test('kids that nobody knows cost one look a second', async (t) => {
  const { keys, server, clock } = keysOf(t, { keys: [await aKey('a')] });
  await keys.ready();
  for (let i = 0; i < 50; i++) t.equal(await keys.find(`unknown-${i}`), null);
  t.equal(server.asked, 1);
  clock.pass(999);
  t.equal(await keys.find('unknown'), null);
  t.equal(server.asked, 1);
  clock.pass(1);
  t.equal(await keys.find('unknown'), null);
  t.equal(server.asked, 2);
});

test('while Latchkey is away what was read stays, and an unknown kid is nobody’s fault', async (t) => {
  const { keys, server, clock } = keysOf(t, { keys: [await aKey('a')] });
  await keys.ready();
  server.jwks = null;
  for (let hour = 0; hour < 3; hour++) {
    clock.pass(3_600_000);
    await t.rejects(keys.find('b'), { code: 'unavailable' });
    t.ok(await keys.find('a'));
  }
});

test('a key set that makes no sense does not replace one that did', async (t) => {
  const good = { keys: [await aKey('a')] };
  const { keys, server, clock } = keysOf(t, good);
  await keys.ready();
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

test('a key that has been taken away is forgotten with the next look', async (t) => {
  const { keys, server, clock } = keysOf(t, { keys: [await aKey('a'), await aKey('b')] });
  await keys.ready();
  server.jwks = { keys: [await aKey('b')] };
  clock.pass(1000);
  await keys.find('unknown');
  t.equal(await keys.find('a'), null);
});

test('keys of other kinds, for other uses, secret or without a name are passed over', async (t) => {
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

test('tries again by itself until Latchkey answers, and says so', async (t) => {
  const { keys, server, errors } = keysOf(t, null);
  await t.rejects(keys.find('a'), { code: 'unavailable' });
  server.jwks = { keys: [await aKey('a')] };
  let isReady = false;
  void keys.ready().then(() => (isReady = true));
  await until(() => isReady);
  t.ok(await keys.find('a'));
  t.equal(server.asked, 2);
  t.match(errors, [{ message: 'away' }, null]);
});

test('a key that cannot be read keeps no other from being found', async (t) => {
  const broken = { ...(await aKey('broken')), x: 'no coordinate' };
  const { keys } = keysOf(t, { keys: [broken, await aKey('good')] });
  await keys.ready();
  t.notSame(await keys.find('good'), null);
  t.equal(await keys.find('broken'), null);
});
