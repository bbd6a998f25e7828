import { test, type Test } from 'tap';
import { createTokens, makeTokens, type Tokens } from '../src/create-tokens.ts';
import type { TokensOptions } from '../src/options.ts';
import { aClock } from '../../../test/support/clock.ts';
import { fakeLatchkey } from './fake-latchkey.ts';

/** A gateway's tokens, of a Latchkey whose tokens are good for 300 s, and whose clock the test moves. */
async function aGateway(t: Test, options: Partial<TokensOptions> = {}) {
  const fake = await fakeLatchkey(t);
  const clock = aClock();
  const tokens = makeTokens({ issuer: fake.url, client: fake.client, ...options }, clock);
  t.teardown(() => tokens.close());
  return { fake, clock, tokens };
}

const isTokenEndpoint = (to: Parameters<typeof fetch>[0]) =>
  (to instanceof Request ? to.url : to.toString()).endsWith('/api/auth/token');

const subject = (name: string) => `header.${name}.signature`;

test('exchanges a user’s token as RFC 8693 says, with this client’s credentials', async (t) => {
  const { fake, tokens } = await aGateway(t);
  t.equal(await tokens.exchange(subject('ada'), 'orders'), 'service-1');
  t.strictSame(fake.tokenRequests, [
    {
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token: subject('ada'),
      subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      audience: 'orders',
    },
  ]);
  t.match(fake.authorizations, [/^Basic /]);
});

test('gets a token of the service itself, by its secret or by its assertion', async (t) => {
  const bySecret = await aGateway(t);
  t.equal(await bySecret.tokens.serviceToken('orders'), 'service-1');
  t.strictSame(bySecret.fake.tokenRequests, [{ grant_type: 'client_credentials', audience: 'orders' }]);
  t.match(bySecret.fake.authorizations, [/^Basic /]);

  const { fake, tokens } = await aGateway(t, { client: { assertion: () => 'jwt' } });
  await tokens.serviceToken('orders');
  const asserted = { grant_type: 'client_credentials', client_assertion: 'jwt' };
  t.match(fake.tokenRequests, [{ ...asserted, audience: 'orders' }]);
  t.strictSame(fake.authorizations, [], 'no token begets another');
  await tokens.exchange(subject('ada'), 'orders');
  t.match(fake.tokenRequests.slice(1), [{ ...asserted, audience: fake.url }, { audience: 'orders' }]);
  t.strictSame(fake.authorizations, ['Bearer service-2']);
});

test('a hundred calls at once send one request for each token and audience', async (t) => {
  const { fake, tokens } = await aGateway(t);
  const calls = Array.from({ length: 100 }, () => tokens.exchange(subject('ada'), 'orders'));
  t.strictSame(new Set(await Promise.all(calls)), new Set(['service-1']));
  t.equal(fake.tokenRequests.length, 1);
  t.equal(await tokens.exchange(subject('ada'), 'orders'), 'service-1');
  const others = [
    tokens.exchange(subject('ada'), 'billing'),
    tokens.exchange(subject('bob'), 'orders'),
    tokens.serviceToken('orders'),
    tokens.serviceToken('billing'),
  ];
  t.equal(new Set(await Promise.all(others)).size, 4);
  t.equal(fake.tokenRequests.length, 5);
});

test('keeps a token until 30 s, or a quarter of its life, before it expires', async (t) => {
  const { fake, clock, tokens } = await aGateway(t);
  for (const [lifetime, kept] of [
    [300, 269],
    [60, 44],
  ] as const) {
    fake.tokenTtl = lifetime;
    for (const get of [
      () => tokens.serviceToken(`for-${lifetime}`),
      () => tokens.exchange(subject('ada'), `for-${lifetime}`),
    ]) {
      const first = await get();
      clock.pass(kept * 1000);
      t.equal(await get(), first, `${lifetime} s`);
      clock.pass(1000);
      t.not(await get(), first, `${lifetime} s`);
    }
  }
});

test('the time that the answer takes is part of a token’s life', async (t) => {
  let passes: () => void = () => undefined;
  const { clock, tokens } = await aGateway(t, {
    fetch: async (to, init) => {
      const answer = await fetch(to, init);
      if (isTokenEndpoint(to)) passes();
      return answer;
    },
  });
  passes = () => {
    clock.pass(200_000);
  };
  const first = await tokens.serviceToken('orders');
  clock.pass(69_000);
  t.equal(await tokens.serviceToken('orders'), first);
  clock.pass(1000);
  t.not(await tokens.serviceToken('orders'), first);
});

test('a machine that was suspended asks again, though its monotonic clock stood still', async (t) => {
  const fake = await fakeLatchkey(t);
  const times = { now: 0, monotonic: 0 };
  const clock = { now: () => times.now, monotonic: () => times.monotonic };
  const tokens = makeTokens({ issuer: fake.url, client: fake.client }, clock);
  const first = await tokens.serviceToken('orders');
  times.now += 3_600_000;
  const second = await tokens.serviceToken('orders');
  t.not(second, first);
  // A clock that was set back says nothing.
  times.now -= 86_400_000;
  t.equal(await tokens.serviceToken('orders'), second);
});

test('keeps 10,000 exchanged tokens, those that were used last', async (t) => {
  let asked = 0;
  const { tokens } = await aGateway(t, {
    fetch: (to, init) => {
      if (!isTokenEndpoint(to)) return fetch(to, init);
      asked++;
      const answer = { access_token: `token-${asked}`, token_type: 'Bearer', expires_in: 300 };
      return Promise.resolve(Response.json(answer));
    },
  });
  const get = (user: number) => tokens.exchange(subject(`user-${user}`), 'orders');
  for (let user = 0; user < 10_000; user++) await get(user);
  await get(0);
  t.equal(asked, 10_000);
  await get(10_000);
  await get(0);
  t.equal(asked, 10_001, 'the new one took the place of another');
  await get(1);
  t.equal(asked, 10_002, 'the one that was unused for longest');
});

test('a subject token that Latchkey refuses is invalid, and asked about again', async (t) => {
  const { fake, tokens } = await aGateway(t);
  fake.refuseToken = () => 'invalid_subject_token';
  const refused = { code: 'invalid_token', reason: 'inactive' };
  await t.rejects(tokens.exchange(subject('ada'), 'orders'), refused);
  fake.refuseToken = () => null;
  t.equal(await tokens.exchange(subject('ada'), 'orders'), 'service-2');
  fake.refuseToken = () => 'invalid_subject_token';
  t.equal(await tokens.exchange(subject('ada'), 'orders'), 'service-2', 'a good one is kept');
});

test('a token that is missing, malformed or huge is refused without a request', async (t) => {
  const { fake, tokens } = await aGateway(t);
  for (const [token, reason] of [
    ['', 'missing'],
    [undefined, 'missing'],
    [null, 'malformed'],
    [7, 'malformed'],
    ['none', 'malformed'],
    ['a.b.c d', 'malformed'],
    ['a.ä.c', 'malformed'],
    [`a.${'b'.repeat(8192)}.c`, 'malformed'],
    [`a.${'b'.repeat(5_000_000)}.c`, 'malformed'],
  ] as const)
    await t.rejects(tokens.exchange(token as string, 'orders'), { code: 'invalid_token', reason });
  t.strictSame(fake.requests, []);
  t.ok(await tokens.exchange(`a.${'b'.repeat(8000)}.c`, 'orders'), 'one of 8 kB is asked about');
});

test('an operator’s mistake is unavailable, and says what to correct', async (t) => {
  const { fake, tokens } = await aGateway(t);
  const calls: [right: string, call: () => Promise<string>][] = [
    ['exchange', () => tokens.exchange(subject('ada'), 'orders')],
    ['call:orders', () => tokens.serviceToken('orders')],
  ];
  const mistake = { code: 'unavailable', reason: 'configuration' };
  for (const [right, call] of calls) {
    fake.refuseToken = () => 'right_missing';
    await t.rejects(call(), {
      ...mistake,
      option: 'client',
      message: `/api/auth/token answered 403: the client has no right \`${right}\``,
    });
    fake.refuseToken = () => 'invalid_client';
    await t.rejects(call(), { ...mistake, option: 'client', message: /client\.secret is wrong$/ });
    fake.refuseToken = () => 'invalid_target';
    await t.rejects(call(), { ...mistake, option: 'audience', found: 'orders' });
  }
  fake.refuseToken = () => null;
  const asked = fake.tokenRequests.length;
  for (const audience of ['', undefined, 7])
    for (const call of [
      (to: string) => tokens.serviceToken(to),
      (to: string) => tokens.exchange(subject('ada'), to),
    ])
      await t.rejects(call(audience as string), { ...mistake, option: 'audience' });
  t.equal(fake.tokenRequests.length, asked);
});

test('a client without a secret hears what is wrong with its assertion', async (t) => {
  const { fake, tokens } = await aGateway(t, { client: { assertion: () => 'jwt' } });
  fake.takesAssertion = () => false;
  const refused = { code: 'unavailable', reason: 'configuration', message: /client\.assertion was refused/ };
  await t.rejects(tokens.serviceToken('orders'), refused);
  await t.rejects(tokens.exchange(subject('ada'), 'orders'), refused);
  fake.takesAssertion = () => true;
  fake.refuseToken = ({ audience }) => (audience === 'orders' ? 'right_missing' : null);
  await t.rejects(tokens.serviceToken('orders'), { ...refused, message: /no right `call:orders`$/ });
});

test('a client whose own token has ended gets another one', async (t) => {
  const { fake, tokens } = await aGateway(t, { client: { assertion: () => 'jwt' } });
  await tokens.exchange(subject('ada'), 'orders');
  let isEnded = true;
  fake.refuseToken = ({ subject_token: exchanged }) => {
    if (exchanged === undefined) isEnded = false;
    return isEnded ? 'invalid_token' : null;
  };
  t.match(await tokens.exchange(subject('bob'), 'orders'), /^service-/);
});

test('an outage, and an answer that is not Latchkey’s, is unavailable and not kept', async (t) => {
  const { fake, tokens } = await aGateway(t);
  const both = [() => tokens.exchange(subject('ada'), 'orders'), () => tokens.serviceToken('orders')];
  for (const call of both) {
    fake.refuseToken = () => 'unavailable';
    await t.rejects(call(), { code: 'unavailable', reason: 'unreachable', option: undefined });
    // A proxy's page, with any status.
    for (const status of [200, 400, 401, 403, 404]) {
      fake.refuseToken = () => status;
      const foreign = { code: 'unavailable', reason: 'unexpected_answer', option: 'url' };
      await t.rejects(call(), foreign, String(status));
    }
    fake.refuseToken = () => 502;
    await t.rejects(call(), { code: 'unavailable', reason: 'unreachable' });
  }
  await fake.stop();
  for (const call of both)
    await t.rejects(call(), { code: 'unavailable', reason: 'unreachable', option: 'url' });
  await fake.start();
  fake.refuseToken = () => null;
  for (const call of both) t.match(await call(), /^service-/);
});

test('takes no answer of another shape', async (t) => {
  const { tokens } = await aGateway(t, {
    fetch: (to, init) =>
      isTokenEndpoint(to)
        ? Promise.resolve(Response.json({ access_token: 'a\r\nx: y', token_type: 'Bearer', expires_in: 300 }))
        : fetch(to, init),
  });
  const unexpected = { code: 'unavailable', reason: 'unexpected_answer' };
  await t.rejects(tokens.exchange(subject('ada'), 'orders'), unexpected);
});

test('forgets its tokens when it is closed', async (t) => {
  for (const ask of [
    (tokens: Tokens) => tokens.serviceToken('orders'),
    (tokens: Tokens) => tokens.exchange(subject('ada'), 'orders'),
  ]) {
    const { tokens } = await aGateway(t);
    const get = () => ask(tokens);
    const first = await get();
    t.equal(await get(), first);
    await tokens.close();
    const second = await get();
    t.not(second, first);
    t.not(await get(), second, 'and keeps no other');
  }
});

test('names each option that is missing or wrong', (t) => {
  const missing = 'issuer is missing; client.id is missing; client.secret is missing';
  t.throws(() => createTokens({} as TokensOptions), {
    name: 'TypeError',
    message: `createTokens: ${missing}`,
  });
  const client = { id: 'gateway', secret: 'secret' };
  const wrong = { issuer: 'id.example.com', client, url: 'redis://x', fetch: 'undici' };
  t.throws(() => createTokens(wrong as unknown as TokensOptions), /issuer must.+url must.+fetch must/);
  t.end();
});
