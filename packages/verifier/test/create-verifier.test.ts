import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { test, type Test } from 'tap';
import { SYSTEM_CLOCK } from '../src/clock.ts';
import { createVerifier, makeVerifier } from '../src/create-verifier.ts';
import type { UserEvent } from '../src/feed-message.ts';
import type { VerifierOptions } from '../src/options.ts';
import type { UsesTimes } from '../src/uses.ts';
import type { TokenType } from '../src/verified-token.ts';
import { VerifierError } from '../src/verifier-error.ts';
import { bareEnvironment } from '../../../test/support/environment.ts';
import { listen } from '../../../test/support/listen.ts';
import { collectGarbage } from '../../../test/support/collect-garbage.ts';
import { deferred } from '../../../test/support/deferred.ts';
import { activeAnswer, fakeLatchkey, longLived, ofService, type FakeLatchkey } from './fake-latchkey.ts';
import { until } from '../../../test/support/until.ts';

/** A verifier whose clock is the real one plus what the test adds. */
function verifierOf<Accepted extends TokenType = 'access' | 'llt'>(
  t: Test,
  { url, client }: FakeLatchkey,
  overrides: Partial<VerifierOptions<Accepted>> = {},
  times: UsesTimes = {},
) {
  let ahead = 0;
  const errors: Error[] = [];
  const verifier = makeVerifier(
    { issuer: url, audience: 'latchkey', client, onError: (error) => errors.push(error), ...overrides },
    { now: () => Date.now() + ahead, monotonic: () => SYSTEM_CLOCK.monotonic() + ahead },
    times,
  );
  t.teardown(() => verifier.close());
  const refusal = (token: string) =>
    verifier.verify(token).then(
      () => null,
      (error: unknown) => (error instanceof VerifierError ? error : new Error('a fault')),
    );
  const outcome = async (token: string) => {
    const error = await refusal(token);
    return error === null ? 'good' : error instanceof VerifierError ? error.code : error.message;
  };
  const pass = (ms: number) => {
    ahead += ms;
  };
  return { verifier, errors, outcome, refusal, pass };
}

/** Without the verifier's own probe, which is no token. */
const introspections = ({ introspected }: FakeLatchkey) =>
  introspected.filter((token) => token.startsWith('eyJ')).length;

test('verifies locally, and refuses tokens that the feed names', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, errors, outcome } = verifierOf(t, fake);
  t.equal(verifier.staleness(), Infinity);
  await verifier.ready();
  t.ok(verifier.staleness() < Infinity);
  t.equal(await outcome(await fake.sign({ aud: 'billing' })), 'invalid_token');
  t.match(errors, [{ option: 'audience' }], 'no token was good so far');
  const [mine, another] = [await fake.sign({ roles: ['admin'] }), await fake.sign({ sid: 12 })];
  t.match(await verifier.verify(mine), { userId: 7, sid: 11, tokenType: 'access', roles: ['admin'] });
  t.equal(verifier.cachedTokens(), 1);
  fake.publish('revoked', { token: 11, user: 7 });
  await until(async () => (await outcome(mine)) === 'invalid_token');
  t.equal(await outcome(another), 'good');
  fake.publish('user_revoked', { user: 7, before: 12 });
  await until(async () => (await outcome(another)) === 'invalid_token');
  t.equal(await outcome(await fake.sign({ sid: 13 })), 'good');
  t.equal(introspections(fake), 0);
});

test('says whether the address is proved: by an access token itself, else by what Latchkey answered', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier } = verifierOf(t, fake, { accept: ['access', 'llt', 'service'] });
  await verifier.ready();
  let isProved = true;
  fake.introspect = (token) => ({ ...activeAnswer(token), ...(isProved && { email_verified: true }) });
  const llt = await fake.sign(...longLived(12));
  t.match(await verifier.verify(await fake.sign({ email_verified: true })), { emailVerified: true });
  t.match(await verifier.verify(await fake.sign()), { emailVerified: false });
  t.match(await verifier.verify(llt), { emailVerified: true });
  t.notOk('emailVerified' in (await verifier.verify(await fake.sign(ofService('lkc_shop', 1)))));

  isProved = false;
  t.match(await verifier.verify(llt), { emailVerified: true }, 'from memory');
  fake.publish('user_changed', { user: 7, version: 3 });
  await until(async () => {
    const verified = await verifier.verify(llt);
    return verified.tokenType === 'llt' && !verified.emailVerified;
  });
});

test('knows earlier revocations and deleted users at the start, from a snapshot of more than one part', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.snapshots.size = 3;
  for (let token = 11; token < 21; token++) fake.publish('revoked', { token, user: 7 });
  fake.publish('user_deleted', { user: 6, version: 1 });
  const told: UserEvent[] = [];
  const { verifier, outcome } = verifierOf(t, fake, { onUser: (event) => told.push(event) });
  await verifier.ready();
  await until(() => told.length > 0);
  t.strictSame(told, [{ type: 'deleted', userId: 6, version: 1 }]);
  for (let sid = 10; sid < 22; sid++) {
    t.equal(
      await outcome(await fake.sign({ sid })),
      sid > 10 && sid < 21 ? 'invalid_token' : 'good',
      String(sid),
    );
  }
});

test('is not ready before the snapshot is complete', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.snapshots = { size: 1, isCut: true };
  for (const token of [11, 12]) fake.publish('revoked', { token, user: 7 });
  const { verifier } = verifierOf(t, fake);
  let isReady = false;
  const ready = verifier.ready().then(() => (isReady = true));
  await until(() => fake.resumed.length >= 3);
  t.notOk(isReady);
  t.equal(verifier.staleness(), Infinity);
  fake.snapshots.isCut = false;
  await ready;
  t.strictSame(new Set(fake.resumed), new Set([null]));
});

test('misses no revocation while disconnected or while the stream is lost', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake);
  await verifier.ready();
  const tokens = await Promise.all([11, 12, 13, 14].map((sid) => fake.sign({ sid })));
  await until(() => fake.readers() === 1);

  fake.publish('revoked', { token: 11, user: 7 });
  fake.cutFeed();
  fake.publish('revoked', { token: 12, user: 7 });
  const refused = async () =>
    (await Promise.all(tokens.map(outcome))).filter((code) => code === 'invalid_token').length;
  await until(async () => (await refused()) === 2);
  t.match(fake.resumed.at(-1), /^1\.\d+$/, 'it resumes');

  await fake.stop();
  fake.publish('revoked', { token: 13, user: 7 });
  fake.loseStream();
  await fake.start();
  await until(async () => (await refused()) === 3);
  t.equal(await outcome(tokens[0] ?? ''), 'invalid_token', 'earlier revocations stay known');

  fake.loseStream();
  fake.publish('revoked', { token: 14, user: 7 });
  await until(async () => (await refused()) === 4);
});

test('while Latchkey is down, valid tokens pass and revoked ones stay refused, up to the limit', async (t) => {
  const fake = await fakeLatchkey(t);
  let recoveries = 0;
  const options = { maxStaleness: 60, whenStale: 'refuse', onRecovered: () => recoveries++ } as const;
  const { verifier, errors, outcome, pass } = verifierOf(t, fake, options);
  await verifier.ready();
  const [good, ended] = [await fake.sign(), await fake.sign({ sid: 12 })];
  fake.publish('revoked', { token: 12, user: 7 });
  await until(async () => (await outcome(ended)) === 'invalid_token');
  await fake.stop();
  await until(() => errors.length > 0);
  pass(55_000);
  t.equal(await outcome(good), 'good');
  t.equal(await outcome(ended), 'invalid_token');
  pass(10_000);
  t.equal(await outcome(good), 'unavailable');
  t.equal(await outcome(ended), 'invalid_token', 'a known revocation stays');
  t.ok(verifier.staleness() >= 65);
  await fake.start();
  await until(async () => (await outcome(good)) === 'good' && recoveries === 1);
  t.equal(await outcome(ended), 'invalid_token');
});

test('the service chooses what happens if the verifier knows too little', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.introspect = (token) => (token === over ? { active: false } : activeAnswer(token));
  const [good, over] = [await fake.sign(), await fake.sign({ sid: 12 })];
  const llt = await fake.sign(...longLived(13));
  const asked = ['good', 'invalid_token'];
  const outcomes = {
    accept: { first: asked, expected: ['good', 'good'] },
    introspect: { first: asked, expected: asked },
    refuse: { first: ['unavailable', 'unavailable'], expected: ['unavailable', 'unavailable'] },
  };
  for (const [index, whenStale] of (['accept', 'introspect', 'refuse'] as const).entries()) {
    const { first, expected } = outcomes[whenStale];
    fake.refusals.set('/api/auth/revocations', 503);
    for (const maxStaleness of [60, Infinity]) {
      const early = verifierOf(t, fake, { whenStale, maxStaleness });
      t.strictSame(
        [await early.outcome(good), await early.outcome(over)],
        first,
        `${whenStale}, before the first snapshot`,
      );
      t.equal(await early.outcome(llt), first[0], `${whenStale}, a long-lived token`);
      if (whenStale === 'refuse') t.match(await early.refusal(good), { reason: 'not_ready' });
    }
    fake.refusals.clear();
    fake.beats = true;
    const late = verifierOf(t, fake, { whenStale, maxStaleness: 60 });
    await late.verifier.ready();
    // Latchkey stays reachable but sends nothing more. What it sent before the last event has arrived with it.
    fake.beats = false;
    const last = await fake.sign({ sid: 20 + index });
    fake.publish('revoked', { token: 20 + index, user: 7 });
    await until(async () => (await late.outcome(last)) === 'invalid_token');
    late.pass(61_000);
    t.strictSame([await late.outcome(good), await late.outcome(over)], expected, `${whenStale}, later`);
    if (whenStale === 'refuse') t.match(await late.refusal(good), { reason: 'stale' });
  }
  await fake.stop();
  const alone = verifierOf(t, fake);
  t.equal(await alone.outcome(good), 'unavailable', 'without any keys');
});

test('after a lost epoch, no request from before the snapshot tells the roles', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake);
  await verifier.ready();
  const [asked, answer] = [deferred<null>(), deferred<null>()];
  fake.introspect = async (token) => {
    asked.resolve(null);
    await answer.promise;
    return { ...activeAnswer(token), roles: ['admin'] };
  };
  const token = await fake.sign(...longLived(12));
  const before = verifier.verify(token);
  await asked.promise;
  // The role is removed, and the event that says so is lost with the epoch.
  fake.introspect = (each) => ({ ...activeAnswer(each), roles: [] });
  fake.loseStream();
  const witness = await fake.sign({ sid: 98 });
  fake.publish('revoked', { token: 98, user: 9 });
  await until(async () => (await outcome(witness)) === 'invalid_token');
  const after = verifier.verify(token);
  await until(() => introspections(fake) === 2);
  answer.resolve(null);
  t.strictSame((await before).roles, ['admin']);
  t.strictSame((await after).roles, []);
  t.strictSame((await verifier.verify(token)).roles, [], 'from memory');
  t.equal(introspections(fake), 2);
});

test('while Latchkey is down, a long-lived token that was valid before still passes', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.introspect = activeAnswer;
  const { verifier, outcome, pass } = verifierOf(t, fake, { whenStale: 'accept', maxStaleness: 60 });
  await verifier.ready();
  const [seen, unseen] = [await fake.sign(...longLived(12)), await fake.sign(...longLived(13))];
  await verifier.verify(seen);
  await fake.stop();
  t.equal(await outcome(seen), 'good');
  pass(3_600_000);
  t.equal(await outcome(seen), 'good');
  t.equal(await outcome(unseen), 'unavailable');
});

test('a token revoked during its introspection is refused, and not cached as valid', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake);
  await verifier.ready();
  const asked = deferred<null>();
  const answer = deferred<null>();
  fake.introspect = async (token) => {
    asked.resolve(null);
    await answer.promise;
    return activeAnswer(token);
  };
  const token = await fake.sign(...longLived(12));
  const witness = await fake.sign({ sid: 12 });
  const verifying = outcome(token);
  await asked.promise;
  fake.publish('revoked', { token: 12, user: 7 });
  await until(async () => (await outcome(witness)) === 'invalid_token');
  answer.resolve(null);
  t.equal(await verifying, 'invalid_token');
  t.equal(await outcome(token), 'invalid_token');
});

test('ready names a missing right and another issuer', async (t) => {
  const fake = await fakeLatchkey(t);
  const lacks = (right: string) => ({
    reason: 'configuration',
    message: new RegExp(`no right \`${right}\``),
  });
  fake.refusals.set('/api/auth/introspect', 403);
  const { verifier, errors, outcome } = verifierOf(t, fake);
  await t.rejects(verifier.ready(), { code: 'unavailable', ...lacks('introspect') });
  t.match(errors, [lacks('introspect')]);
  t.equal(await outcome(await fake.sign()), 'good', 'access tokens need no introspection');
  t.equal(await outcome(await fake.sign(...longLived(12))), 'unavailable');
  t.equal(errors.length, 1);
  await t.resolves(
    verifierOf(t, fake, { whenStale: 'refuse', accept: ['access'] }).verifier.ready(),
    'with access tokens only it never introspects',
  );
  fake.refusals.set('/api/auth/introspect', 503);
  await t.resolves(verifierOf(t, fake).verifier.ready(), 'an outage is no mistake');
  fake.refusals.clear();
  await t.resolves(verifier.ready(), 'the right was given');

  fake.refusals.set('/api/auth/revocations', 403);
  await t.rejects(verifierOf(t, fake).verifier.ready(), { code: 'unavailable', ...lacks('revocations') });
  fake.refusals.clear();
  const { verifier: elsewhere } = verifierOf(t, fake, { issuer: 'https://id.example.com', url: fake.url });
  await t.rejects(elsewhere.ready(), {
    code: 'unavailable',
    reason: 'configuration',
    expected: 'https://id.example.com',
    found: fake.url,
  });
});

test('accepts while Latchkey is down, but not while Latchkey refuses this client', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.introspect = activeAnswer;
  const { verifier, refusal, outcome, pass } = verifierOf(t, fake, { whenStale: 'accept', maxStaleness: 60 });
  await verifier.ready();
  const token = await fake.sign();
  fake.refusals.set('/api/auth/revocations', 401);
  fake.cutFeed();
  await until(() =>
    verifier.ready().then(
      () => false,
      () => true,
    ),
  );
  t.equal(await outcome(token), 'good', 'what it knows counts for maxStaleness');
  pass(61_000);
  t.equal(await outcome(token), 'good');
  t.equal(introspections(fake), 1, 'then it asks');
  fake.refusals.set('/api/auth/introspect', 401);
  t.match(await refusal(token), { code: 'unavailable', reason: 'configuration' });
  await fake.stop();
  t.equal(await outcome(token), 'unavailable', 'an outage does not make the refusal undone');
});

test('accepts no token unasked that is older than the kept revocations, unless Latchkey is down', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome, pass } = verifierOf(t, fake, { whenStale: 'accept', maxStaleness: 60 });
  await verifier.ready();
  const issued = (secondsAgo: number) => fake.sign({ iat: Math.floor(Date.now() / 1000) - secondsAgo });
  t.equal(await outcome(await issued(900)), 'good');
  t.equal(introspections(fake), 0);
  const old = await issued(915);
  t.equal(await outcome(old), 'invalid_token');
  await fake.stop();
  pass(61_000);
  t.equal(await outcome(old), 'good');
});

test('started while Latchkey is down: unavailable and not ready, and both end', async (t) => {
  const fake = await fakeLatchkey(t);
  const token = await fake.sign();
  await fake.stop();
  const verifiers = (['accept', 'introspect', 'refuse'] as const).map((whenStale) =>
    verifierOf(t, fake, { whenStale }),
  );
  for (const { verifier, refusal } of verifiers) {
    t.match(await refusal(token), { code: 'unavailable', reason: 'unreachable', option: 'url' });
    t.equal(verifier.staleness(), Infinity);
    await t.rejects(verifier.ready({ signal: AbortSignal.timeout(10) }), {
      code: 'unavailable',
      reason: 'not_ready',
      option: 'url',
      message: /the time is over: .*ECONNREFUSED/,
    });
  }
  await fake.start();
  await Promise.all(verifiers.map(({ verifier }) => verifier.ready()));
  for (const { outcome } of verifiers) t.equal(await outcome(token), 'good');
});

test('a service that waits for it keeps running, and one that closes it ends the wait', async (t) => {
  const fake = await fakeLatchkey(t);
  await fake.stop();
  const script = `
    import { createVerifier } from ${JSON.stringify(new URL('../src/main.js', import.meta.url).href)};
    const client = { id: 'orders', secret: 'secret' };
    const verifier = createVerifier({ issuer: '${fake.url}', audience: 'latchkey', client, onError() {} });
    await verifier.ready({ signal: AbortSignal.timeout(2500) }).catch(({ reason }) => console.log(reason));
    setTimeout(() => verifier.close(), 10);
    await verifier.ready().catch(({ message }) => console.log(message.slice(0, 28)));
  `;
  const { stdout, stderr, status } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    env: bareEnvironment(),
    encoding: 'utf8',
  });
  t.equal(stderr, '');
  t.equal(status, 0);
  t.strictSame(stdout.split('\n'), ['not_ready', 'not ready, and it is closed:', '']);
});

test('asks about each service’s token as long as the feed has not listed the clients', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.clients = null;
  fake.introspect = activeAnswer;
  const { verifier, outcome } = verifierOf(t, fake, { accept: ['service'] });
  await verifier.ready();
  const token = await fake.sign(ofService('lkc_shop', 3));
  for (let i = 1; i <= 2; i++) {
    t.equal(await outcome(token), 'good');
    t.equal(introspections(fake), i);
  }
  fake.introspect = () => ({ active: false });
  fake.publishClients({ lkc_shop: 3 });
  await until(async () => (await outcome(token)) === 'good');
  fake.clients = null;
  fake.cutFeed();
  await until(async () => (await outcome(token)) === 'invalid_token');
});

test('with a stale feed, a service’s token follows the rules of access tokens', async (t) => {
  for (const [whenStale, listed, higher, lower] of [
    ['accept', 'good', 'unavailable', 'invalid_token'],
    ['introspect', 'unavailable', 'unavailable', 'invalid_token'],
    ['refuse', 'unavailable', 'unavailable', 'invalid_token'],
  ] as const) {
    const fake = await fakeLatchkey(t);
    fake.clients = { lkc_shop: 3 };
    const { verifier, outcome, pass } = verifierOf(t, fake, {
      whenStale,
      maxStaleness: 60,
      accept: ['service'],
    });
    const tokens = await Promise.all([3, 4, 2].map((version) => fake.sign(ofService('lkc_shop', version))));
    const [first = ''] = tokens;
    await verifier.ready();
    await until(async () => (await outcome(first)) === 'good');
    await fake.stop();
    t.equal(await outcome(first), 'good', `${whenStale}, not stale yet`);
    pass(61_000);
    t.strictSame(await Promise.all(tokens.map(outcome)), [listed, higher, lower], whenStale);
  }
});

test('a renewal that fails in the background is reported once, while the token serves', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.tokenTtl = 2;
  const { verifier, errors, outcome } = verifierOf(t, fake, { client: { assertion: () => 'jwt' } });
  await verifier.ready();
  fake.takesAssertion = () => false;
  await until(() => errors.length > 0);
  t.equal(fake.readers(), 1);
  t.match(errors, [{ message: /client.assertion was refused/ }]);
  t.equal(await outcome(await fake.sign()), 'good');
});

test('after close it disconnects and still verifies with what it knows', async (t) => {
  const fake = await fakeLatchkey(t);
  const verifier = createVerifier({ issuer: fake.url, audience: 'latchkey', client: fake.client });
  await verifier.ready();
  await verifier.close();
  await until(() => fake.readers() === 0);
  await t.resolves(verifier.verify(await fake.sign()));
  await t.resolves(verifier.close(), 'twice is once');
});

test('confirms what it has applied, says what it does when stale, and says goodbye', async (t) => {
  const fake = await fakeLatchkey(t);
  const reader = { instance: 'orders-1', software: 'orders', version: '7' };
  const stale = { maxStaleness: 1.5, whenStale: 'refuse' } as const;
  const { verifier } = verifierOf(t, fake, { reader, ...stale });
  const endless = verifierOf(t, fake, { maxStaleness: Infinity });
  await Promise.all([verifier.ready(), endless.verifier.ready()]);
  await until(() => fake.confirmed.size === 2);
  const keys = fake.published.map(({ kid }) => kid);
  const said = [...fake.confirmed.values()];
  t.match(
    said.find(({ instance }) => instance === 'orders-1'),
    {
      ...reader,
      position: /^1\.0$/,
      audience: 'latchkey',
      max_staleness: 2,
      when_stale: 'refuse',
      keys,
    },
  );
  t.notOk(
    said.some((each) => each.instance !== 'orders-1' && 'max_staleness' in each),
    'for ever is no policy',
  );
  fake.publish('revoked', { token: 11, user: 7 });
  await until(() => [...fake.confirmed.values()].every(({ position }) => position === '1.1'));
  await verifier.close();
  t.equal(fake.confirmed.size, 1);
});

test('an older Latchkey, which takes no confirmations, is no failure', async (t) => {
  const fake = await fakeLatchkey(t);
  const refused: string[] = [];
  const { verifier, errors, outcome } = verifierOf(t, fake, {
    fetch(to, init) {
      const { method = 'GET' } = init ?? {};
      if (!['PUT', 'DELETE'].includes(method)) return fetch(to, init);
      refused.push(method);
      return Promise.resolve(new Response('', { status: 404 }));
    },
  });
  await verifier.ready();
  await until(() => refused.length > 0);
  await until(() => fake.readers() === 1);
  t.equal(await outcome(await fake.sign()), 'good');
  await t.resolves(verifier.ready());
  await verifier.close();
  t.strictSame(refused, ['PUT', 'DELETE']);
  t.strictSame(errors, []);
});

test('after garbage collection it still notices a dead connection and closes it', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, errors } = verifierOf(t, fake);
  await verifier.ready();
  await collectGarbage();
  fake.beats = false;
  await until(() => fake.resumed.length > 1);
  t.match(errors, [{ message: /silent/ }]);
  fake.beats = true;
  await until(() => fake.readers() === 1);
  await collectGarbage();
  await verifier.close();
  await until(() => fake.readers() === 0);
});

test('after garbage collection, close still hangs up on a server that never answers', async (t) => {
  const fake = await fakeLatchkey(t);
  let given = 0;
  const server = createServer((request) => {
    given++;
    request.socket.on('close', () => given--);
  });
  const url = await listen(t, server);
  const verifier = createVerifier({
    issuer: fake.url,
    url,
    audience: 'latchkey',
    client: fake.client,
  });
  await until(() => given > 1);
  await collectGarbage();
  await verifier.close();
  await until(() => given === 0);
});

test('reports the long-lived and limited tokens that it has answered from memory', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, errors } = verifierOf(t, fake, {}, { interval: 50 });
  await verifier.ready();
  const [llt, other] = [await fake.sign(...longLived(12)), await fake.sign(...longLived(13))];
  const [claims] = longLived(14, {
    aud: 'latchkey#limited',
    scope: 'orders:read',
    exp: Math.floor(Date.now() / 1000) + 60,
  });
  const limited = await fake.sign(claims, { typ: 'limited+jwt' });
  const access = await fake.sign();
  fake.introspect = (token) => ({
    ...activeAnswer(token),
    ...(token === limited && { token_use: 'limited' }),
  });
  const checkAll = async () => {
    for (const token of [llt, access]) await verifier.verify(token);
    await verifier.verify(limited, { scope: 'orders:read' });
  };
  await verifier.verify(other);
  await checkAll();
  t.strictSame(fake.reported, [], 'Latchkey was asked');
  await checkAll();
  await checkAll();
  await until(() => fake.reported.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.strictSame(fake.reported, [{ tokens: [12, 14] }]);

  fake.refusals.set('/api/auth/uses', 503);
  await checkAll();
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.strictSame(errors, [], 'the feed tells of outages');
  fake.refusals.set('/api/auth/uses', 403);
  await until(() => errors.length > 0);
  t.match(errors, [{ reason: 'configuration', message: /uses answered 403: .*`introspect`/ }]);
  fake.refusals.clear();
  await until(() => fake.reported.length > 1);
  t.strictSame(fake.reported[1], { tokens: [12, 14] }, 'none is lost');
});
