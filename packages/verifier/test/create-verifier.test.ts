import { spawnSync } from 'node:child_process';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { SYSTEM_CLOCK } from '../src/clock.ts';
import { createVerifier, makeVerifier } from '../src/create-verifier.ts';
import type { VerifierOptions } from '../src/options.ts';
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
) {
  let ahead = 0;
  const errors: Error[] = [];
  const verifier = makeVerifier(
    { issuer: url, audience: 'latchkey', client, onError: (error) => errors.push(error), ...overrides },
    { now: () => Date.now() + ahead, monotonic: () => SYSTEM_CLOCK.monotonic() + ahead },
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

/** Latchkey stays reachable but sends nothing more. */
async function goSilent(fake: FakeLatchkey, staleness: () => number): Promise<void> {
  fake.beats = false;
  await until(() => staleness() > 0.1);
}

/** Without the verifier's own probe, which is no token. */
const introspections = ({ introspected }: FakeLatchkey) =>
  introspected.filter((token) => token.startsWith('eyJ')).length;

test('verifies locally, and refuses tokens that the feed names', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake);
  t.equal(verifier.staleness(), Infinity);
  await verifier.ready();
  t.ok(verifier.staleness() < Infinity);
  const [mine, another] = [await fake.sign(), await fake.sign({ sid: 12 })];
  t.match(await verifier.verify(mine), { userId: 7, sid: 11, tokenType: 'access', claims: { sid: 11 } });
  t.equal(verifier.cachedTokens(), 1);
  fake.publish('revoked', { token: 11, user: 7 });
  await until(async () => (await outcome(mine)) === 'invalid_token');
  t.equal(await outcome(another), 'good');
  fake.publish('user_revoked', { user: 7, before: 12 });
  await until(async () => (await outcome(another)) === 'invalid_token');
  t.equal(await outcome(await fake.sign({ sid: 13 })), 'good');
  t.equal(introspections(fake), 0);
});

test('knows earlier revocations at the start, from a snapshot of one or more parts', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.snapshots.size = 3;
  for (let token = 11; token < 21; token++) fake.publish('revoked', { token, user: 7 });
  const { verifier, outcome } = verifierOf(t, fake);
  await verifier.ready();
  for (let sid = 10; sid < 22; sid++) {
    t.equal(
      await outcome(await fake.sign({ sid })),
      sid > 10 && sid < 21 ? 'invalid_token' : 'good',
      String(sid),
    );
  }
});

test('refuses a cached long-lived token once it has expired', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.introspect = (token) => activeAnswer(token);
  const { verifier, outcome, pass } = verifierOf(t, fake);
  await verifier.ready();
  const exp = Math.floor(Date.now() / 1000) + 30;
  const llt = await fake.sign(...longLived(12, { exp }));
  for (let i = 0; i < 2; i++) t.equal(await outcome(llt), 'good');
  t.equal(introspections(fake), 1, 'cached from then on');
  pass(36_000);
  t.equal(await outcome(llt), 'invalid_token');
  t.equal(introspections(fake), 1);
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
  t.match(fake.resumed.at(-1), /^1-\d+$/, 'it resumes');

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
  const { verifier, outcome, pass } = verifierOf(t, fake, { maxStaleness: 60, whenStale: 'refuse' });
  await verifier.ready();
  const [good, ended] = [await fake.sign(), await fake.sign({ sid: 12 })];
  fake.publish('revoked', { token: 12, user: 7 });
  await until(async () => (await outcome(ended)) === 'invalid_token');
  await fake.stop();
  pass(55_000);
  t.equal(await outcome(good), 'good');
  t.equal(await outcome(ended), 'invalid_token');
  pass(10_000);
  t.equal(await outcome(good), 'unavailable');
  t.equal(await outcome(ended), 'invalid_token', 'a known revocation stays');
  t.ok(verifier.staleness() >= 65);
  await fake.start();
  await until(async () => (await outcome(good)) === 'good');
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
  for (const whenStale of ['accept', 'introspect', 'refuse'] as const) {
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
    }
    fake.refusals.clear();
    fake.beats = true;
    const late = verifierOf(t, fake, { whenStale, maxStaleness: 0.1 });
    await late.verifier.ready();
    await goSilent(fake, () => late.verifier.staleness());
    t.strictSame([await late.outcome(good), await late.outcome(over)], expected, `${whenStale}, later`);
  }
  await fake.stop();
  const alone = verifierOf(t, fake);
  t.equal(await alone.outcome(good), 'unavailable', 'without any keys');
});

test('an outage of introspection is unavailable, never an invalid token', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake, { maxStaleness: 0 });
  await verifier.ready();
  await goSilent(fake, () => verifier.staleness());
  const token = await fake.sign();
  for (const status of [401, 429, 500, 503]) {
    fake.refusals.set('/api/auth/introspect', status);
    t.equal(await outcome(token), 'unavailable', String(status));
  }
  await fake.stop();
  t.equal(await outcome(token), 'unavailable', 'away');
});

test('introspects a long-lived token once, until the feed names it', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.introspect = activeAnswer;
  const { verifier, outcome } = verifierOf(t, fake);
  await verifier.ready();
  const token = await fake.sign(...longLived(12));
  t.match(await verifier.verify(token), { sid: 12, tokenType: 'llt' });
  await Promise.all(Array.from({ length: 20 }, () => verifier.verify(token)));
  t.equal(introspections(fake), 1);
  fake.loseStream();
  await until(async () => {
    t.equal(await outcome(token), 'good');
    return introspections(fake) === 2;
  });
  fake.publish('revoked', { token: 12, user: 7 });
  await until(async () => (await outcome(token)) === 'invalid_token');
  t.equal(introspections(fake), 2, 'a token known to have ended is not introspected');
});

test('says the roles: of an access token its own, of a long-lived token the present ones', async (t) => {
  const fake = await fakeLatchkey(t);
  let roles = ['editor'];
  fake.introspect = (token) => ({ ...activeAnswer(token), roles });
  const { verifier } = verifierOf(t, fake);
  await verifier.ready();
  const rolesOf = async (token: string) => (await verifier.verify(token)).roles;
  const [access, plain] = [await fake.sign({ roles: ['admin'] }), await fake.sign()];
  const llt = await fake.sign(...longLived(12));
  t.strictSame(await rolesOf(access), ['admin']);
  t.strictSame(await rolesOf(plain), []);
  t.strictSame(await rolesOf(llt), ['editor']);
  roles = [];
  t.strictSame(await rolesOf(llt), ['editor'], 'from memory');
  fake.publish('user_changed', { user: 8, version: 1 });
  fake.publish('user_changed', { user: 7, version: 1 });
  await until(async () => (await rolesOf(llt)).length === 0);
  t.equal(introspections(fake), 2);
  t.strictSame(await rolesOf(access), ['admin']);
  t.ok(verifier.staleness() < Infinity);
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

test('tells the service of users, one event after the other', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.publish('user_deleted', { user: 6, version: 1 });
  const told: string[] = [];
  const first = deferred<null>();
  const { verifier } = verifierOf(t, fake, {
    onUser: async ({ type, userId, version }) => {
      told.push(`${type} ${userId}@${version}`);
      if (told.length === 1) await first.promise;
    },
  });
  await verifier.ready();
  for (const type of ['created', 'changed', 'disabled', 'enabled'])
    fake.publish(`user_${type}`, { user: 7, version: 2 });
  fake.loseStream();
  await until(() => told.length > 0);
  await sleep(200);
  t.strictSame(told, ['deleted 6@1'], 'from the first snapshot');
  first.resolve(null);
  await until(() => told.length === 8);
  t.strictSame(told.slice(1), [
    ...['created 7@2', 'changed 7@2', 'disabled 7@2', 'enabled 7@2'],
    ...['deleted 6@1', 'disabled 7@2', 'enabled 7@2'],
  ]);
});

test('a listener that fails is reported and stops nothing', async (t) => {
  const fake = await fakeLatchkey(t);
  const told: number[] = [];
  const { verifier, errors, outcome } = verifierOf(t, fake, {
    onUser: ({ userId }) => {
      told.push(userId);
      if (userId === 7) throw new TypeError('a name');
      return userId === 8 ? Promise.reject(new RangeError('a name')) : null;
    },
  });
  await verifier.ready();
  for (const user of [7, 7, 8, 9, 7]) fake.publish('user_created', { user, version: 0 });
  fake.publish('revoked', { token: 11, user: 7 });
  const token = await fake.sign();
  await until(async () => (await outcome(token)) === 'invalid_token' && told.length === 5);
  await until(() => errors.length === 3);
  t.strictSame(
    errors.map(({ message }) => message),
    ['onUser failed (TypeError)', 'onUser failed (RangeError)', 'onUser failed (TypeError)'],
  );
  t.match(errors[0], { reason: 'fault' });
});

test('a long-lived token that was revoked long ago is not accepted at first sight', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake, { whenStale: 'accept' });
  await verifier.ready();
  const token = await fake.sign(...longLived(12));
  t.equal(await outcome(token), 'invalid_token');
  await fake.stop();
  t.equal(await outcome(token), 'unavailable', 'nor while Latchkey is down');
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

test('a key change fails no request', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake);
  await verifier.ready();
  const old = await fake.sign();
  await sleep(1000);
  await fake.addKey();
  const tokens = await Promise.all(Array.from({ length: 20 }, (_, i) => fake.sign({ sid: 20 + i })));
  t.strictSame(new Set(await Promise.all([old, ...tokens].map(outcome))), new Set(['good']));
  t.equal(fake.requests.filter((line) => line.endsWith('jwks.json')).length, 2);
});

test('an access token older than the kept revocations is introspected', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.introspect = activeAnswer;
  const { verifier } = verifierOf(t, fake);
  await verifier.ready();
  const now = Math.floor(Date.now() / 1000);
  await verifier.verify(await fake.sign({ iat: now - 900 }));
  t.equal(introspections(fake), 0);
  await verifier.verify(await fake.sign({ iat: now - 915 }));
  t.equal(introspections(fake), 1, 'its lifetime is longer than the feed announced');
});

test('reports each background failure once, without secrets', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.refusals.set('/api/auth/revocations', 503);
  let recoveries = 0;
  const { errors, verifier } = verifierOf(t, fake, { onRecovered: () => recoveries++ });
  await until(() => fake.requests.filter((line) => line.endsWith('revocations')).length >= 3);
  t.match(errors, [
    { name: 'VerifierError', reason: 'unreachable', message: '/api/auth/revocations answered 503' },
  ]);
  t.equal(errors.length, 1);
  fake.refusals.clear();
  await verifier.ready();
  await until(() => recoveries === 1);
});

test('says once which option may be wrong, as long as no token was good', async (t) => {
  const fake = await fakeLatchkey(t);
  const { errors, outcome } = verifierOf(t, fake);
  const tokens = [
    await fake.sign({ aud: 'billing' }),
    await fake.sign({ aud: 'shipping' }),
    await fake.sign({ exp: 1 }),
    await fake.sign({}, { kid: 'unknown' }),
    await fake.sign({ iss: 'mailto:ada@example.com' }),
    'no token',
  ];
  for (const token of tokens) t.equal(await outcome(token), 'invalid_token');
  t.match(errors, [
    {
      ...{ code: 'invalid_token', reason: 'audience', expected: 'latchkey', found: 'billing' },
      option: 'audience',
      message:
        /^no token has been good so far, check `audience`: it is latchkey, and the token is for billing$/,
    },
    { reason: 'unknown_key', option: 'url', message: /check `url`/ },
    { reason: 'issuer', option: 'issuer', message: /: it is http.*, and the token is of \(not shown\)$/ },
  ]);
  t.equal(errors.length, 3);
  t.equal(await outcome(await fake.sign()), 'good');
  t.equal(await outcome(await fake.sign({ iss: 'https://id.example.com' })), 'invalid_token');
  t.equal(errors.length, 3);
});

test('a wrong secret is a mistake: reported once, ready rejects, and nothing is accepted', async (t) => {
  const fake = await fakeLatchkey(t);
  const token = await fake.sign();
  for (const whenStale of ['accept', 'introspect', 'refuse'] as const) {
    const client = { id: 'orders', secret: 'not-the-secret' };
    const stranger = verifierOf(t, { ...fake, client }, { whenStale });
    const mistake = {
      code: 'unavailable',
      reason: 'configuration',
      message: /401: client.id or client.secret/,
    };
    await t.rejects(stranger.verifier.ready(), mistake, whenStale);
    for (let i = 0; i < 3; i++) t.equal(await stranger.outcome(token), 'unavailable', whenStale);
    const reason = whenStale === 'refuse' ? 'not_ready' : 'configuration';
    t.match(await stranger.refusal(token), { reason }, whenStale);
    // One of the feed; and one of introspection, if it asks.
    t.equal(stranger.errors.length, whenStale === 'refuse' ? 1 : 2);
    for (const error of stranger.errors) {
      t.match(error, mistake);
      t.notMatch(error.message, /not-the-secret/);
    }
  }
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
    ...{ code: 'unavailable', reason: 'configuration', expected: 'https://id.example.com', found: fake.url },
  });
});

test('audience and client that do not belong together are a mistake, not the tokens’ fault', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.audience = 'orders';
  const { verifier, errors, refusal, outcome } = verifierOf(t, fake);
  const mistake = { code: 'unavailable', reason: 'configuration', expected: 'latchkey', found: 'orders' };
  await t.rejects(verifier.ready(), mistake);
  const llt = await fake.sign(...longLived(12));
  for (let i = 0; i < 3; i++) t.match(await refusal(llt), mistake);
  t.match(errors, [mistake]);
  t.equal(errors.length, 1);
  t.equal(await outcome(await fake.sign()), 'good', 'access tokens need no introspection');

  const own = await fake.sign({ aud: 'orders' });
  fake.audience = 'latchkey';
  const late = verifierOf(t, fake, { audience: 'orders', maxStaleness: 60 });
  await t.rejects(late.verifier.ready(), { ...mistake, expected: 'orders', found: 'latchkey' });
  t.equal(await late.outcome(own), 'good');
  await goSilent(fake, () => late.verifier.staleness());
  late.pass(61_000);
  t.match(await late.refusal(own), { ...mistake, expected: 'orders', found: 'latchkey' }, 'it asks');
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
  const old = await fake.sign({ iat: Math.floor(Date.now() / 1000) - 915 });
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
      ...{ code: 'unavailable', reason: 'not_ready', option: 'url' },
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

test('checks a cached token’s revocation, expiry and key each time', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, refusal, outcome, pass } = verifierOf(t, fake);
  await verifier.ready();
  const [first, second] = [await fake.sign(), await fake.sign({ sid: 12 })];
  t.equal((await verifier.verify(first)).claims, (await verifier.verify(first)).claims, 'cached');
  fake.publish('revoked', { token: 11, user: 7 });
  await until(async () => (await outcome(first)) === 'invalid_token');
  t.match(await refusal(first), { reason: 'revoked' });
  t.equal(await outcome(second), 'good');
  fake.published.length = 0;
  await fake.addKey();
  pass(1000);
  await verifier.verify(await fake.sign({ sid: 13 }));
  t.match(await refusal(second), { reason: 'unknown_key' });
  const third = await fake.sign({ sid: 14 });
  t.equal(await outcome(third), 'good');
  pass(906_000);
  t.match(await refusal(third), { reason: 'expired' });
});

test('takes tokens for its own audience only, also when it asks', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.audience = 'orders';
  fake.introspect = activeAnswer;
  const { verifier, refusal, pass } = verifierOf(t, fake, { audience: 'orders', maxStaleness: 60 });
  await verifier.ready();
  const exchanged = await fake.sign({ aud: 'orders', client_id: 'lkc_shop', act: { sub: 'lkc_shop' } });
  t.match(await verifier.verify(exchanged), { clientId: 'lkc_shop', act: { sub: 'lkc_shop' } });
  t.equal(introspections(fake), 0);
  fake.refusals.set('/api/auth/revocations', 503);
  fake.cutFeed();
  pass(61_000);
  t.match(await verifier.verify(exchanged), { clientId: 'lkc_shop', act: { sub: 'lkc_shop' } });
  t.equal(introspections(fake), 1);
  for (const token of [await fake.sign(), await fake.sign(...longLived(12))])
    t.match(await refusal(token), { reason: 'audience', expected: 'orders', found: 'latchkey' });
  t.equal(introspections(fake), 1, 'nothing else is asked about');
});

test('a service’s token is good with the listed version, and refused once a higher one is listed', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.clients = { lkc_shop: 3 };
  const { verifier, refusal } = verifierOf(t, fake, { accept: ['service'] });
  await verifier.ready();
  const token = await fake.sign(ofService('lkc_shop', 3, { roles: ['billing'] }));
  const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as {
    exp: number;
  };
  await until(async () => (await refusal(token)) === null);
  const { claims, ...rest } = await verifier.verify(token);
  const about = { tokenType: 'service', clientId: 'lkc_shop', roles: ['billing'], expiresAt: exp };
  t.strictSame(rest, about);
  t.match(claims, { client_version: 3 });
  t.match(await refusal(await fake.sign(ofService('lkc_shop', 2))), { reason: 'revoked' });
  const asked = introspections(fake);
  fake.publishClients({ lkc_shop: 4 });
  await until(async () => (await refusal(token)) !== null);
  t.match(await refusal(token), { code: 'invalid_token', reason: 'revoked' });
  t.equal(introspections(fake), asked, 'it asks about none of them');
  const users = verifierOf(t, fake);
  t.match(await users.refusal(token), { reason: 'type', expected: 'access or llt', found: 'service' });
});

test('asks about a higher version and about a client that is not listed, once until the next list', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.clients = { lkc_shop: 3 };
  fake.introspect = (token) => ({ ...activeAnswer(token), roles: ['present'] });
  const { verifier, refusal, outcome } = verifierOf(t, fake, { accept: ['access', 'service'] });
  const listed = await fake.sign(ofService('lkc_shop', 3));
  await verifier.ready();
  // Its list follows the snapshot.
  await until(async () => (await verifier.verify(listed)).roles.length === 0);
  for (const token of [await fake.sign(ofService('lkc_shop', 4)), await fake.sign(ofService('lkc_new', 0))]) {
    const before = introspections(fake);
    await Promise.all(Array.from({ length: 5 }, () => verifier.verify(token)));
    t.strictSame((await verifier.verify(token)).roles, ['present']);
    t.equal(introspections(fake), before + 1);
  }
  const disabled = await fake.sign(ofService('lkc_shop', 4));
  fake.introspect = () => ({ active: false });
  fake.publishClients({});
  await until(async () => (await outcome(disabled)) === 'invalid_token');
  t.match(await refusal(disabled), { reason: 'inactive' });
  await fake.stop();
  t.equal(await outcome(disabled), 'unavailable');
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

test('an end that is listed while Latchkey is asked counts', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake, { accept: ['service'] });
  await verifier.ready();
  const [asked, answer] = [deferred<null>(), deferred<null>()];
  fake.introspect = async (token) => {
    asked.resolve(null);
    await answer.promise;
    return activeAnswer(token);
  };
  const verifying = outcome(await fake.sign(ofService('lkc_shop', 3)));
  await asked.promise;
  const witness = await fake.sign(ofService('lkc_other', 1));
  fake.publishClients({ lkc_shop: 4, lkc_other: 1 });
  await until(() => Promise.race([outcome(witness), sleep(20, 'asked')]).then((found) => found === 'good'));
  answer.resolve(null);
  t.equal(await verifying, 'invalid_token');
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

test('follows the feed with a token of its own: the next one when it ends, and no outage', async (t) => {
  const fake = await fakeLatchkey(t);
  // Long enough for a connection that ends to be a good one.
  fake.tokenTtl = 6;
  const assertions = ['one', 'two', 'three', 'four'];
  const client = { assertion: () => Promise.resolve(assertions.shift() ?? 'last') };
  const { verifier, errors, outcome } = verifierOf(t, fake, { client });
  await verifier.ready();
  await until(() => fake.resumed.length === 2 && fake.readers() === 1);
  t.ok(fake.tokenRequests.length >= 2);
  t.strictSame(
    fake.tokenRequests.slice(0, 2).map((form) => form.client_assertion),
    ['one', 'two'],
  );
  t.match(fake.authorizations.at(-1), 'Bearer service-2', 'renewed before the first had ended');
  t.match(fake.resumed[1], /^1-/, 'it resumes');
  t.equal(await outcome(await fake.sign()), 'good');
  t.strictSame(errors, []);
});

test('a refused assertion is a mistake: reported once, and ready rejects', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.takesAssertion = () => false;
  const { verifier, errors } = verifierOf(t, fake, { client: { assertion: () => 'secret-jwt' } });
  const mistake = { code: 'unavailable', reason: 'configuration', message: /client.assertion was refused/ };
  await t.rejects(verifier.ready(), mistake);
  t.match(errors, [mistake]);
  t.equal(errors.length, 1);
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

test('a wrong option fails at the start', (t) => {
  t.throws(() => createVerifier({} as VerifierOptions), TypeError);
  t.end();
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
