import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { SYSTEM_CLOCK } from '../../packages/verifier/src/clock.ts';
import { createVerifier, makeVerifier } from '../../packages/verifier/src/create-verifier.ts';
import type { VerifierOptions } from '../../packages/verifier/src/options.ts';
import { VerifierError } from '../../packages/verifier/src/verifier-error.ts';
import { listen } from '../support/listen.ts';
import { collectGarbage } from '../support/collect-garbage.ts';
import { deferred } from '../support/deferred.ts';
import { activeAnswer, fakeLatchkey, longLived, type FakeLatchkey } from '../support/fake-latchkey.ts';
import { until } from '../support/until.ts';

/** A verifier whose clock is the real one plus what the test adds. */
function verifierOf(t: Test, { url, client }: FakeLatchkey, overrides: Partial<VerifierOptions> = {}) {
  let ahead = 0;
  const errors: Error[] = [];
  const verifier = makeVerifier(
    { issuer: url, audience: 'latchkey', client, onError: (error) => errors.push(error), ...overrides },
    { now: () => Date.now() + ahead, monotonic: () => SYSTEM_CLOCK.monotonic() + ahead },
  );
  t.teardown(() => verifier.close());
  const outcome = (token: string) =>
    verifier.verify(token).then(
      () => 'good',
      (error: unknown) => (error instanceof VerifierError ? error.code : 'a fault'),
    );
  const pass = (ms: number) => {
    ahead += ms;
  };
  return { verifier, errors, outcome, pass };
}

/** Latchkey stays reachable but sends nothing more. */
async function goSilent(fake: FakeLatchkey, staleness: () => number): Promise<void> {
  fake.beats = false;
  await until(() => staleness() > 0.1);
}

const introspections = ({ requests }: FakeLatchkey) =>
  requests.filter((line) => line.endsWith('introspect')).length;

test('verifies locally, and refuses tokens that the feed names', async (t) => {
  const fake = await fakeLatchkey(t);
  const { verifier, outcome } = verifierOf(t, fake);
  t.equal(verifier.staleness(), Infinity);
  await verifier.ready();
  t.ok(verifier.staleness() < Infinity);
  const [mine, another] = [await fake.sign(), await fake.sign({ sid: 12 })];
  t.match(await verifier.verify(mine), { userId: 7, sid: 11, tokenType: 'access', claims: { sid: 11 } });
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
  const outcomes = {
    accept: ['good', 'good'],
    introspect: ['good', 'invalid_token'],
    refuse: ['unavailable', 'unavailable'],
  };
  for (const [whenStale, expected] of Object.entries(outcomes) as [keyof typeof outcomes, string[]][]) {
    fake.refusals.set('/api/auth/revocations', 503);
    const early = verifierOf(t, fake, { whenStale, maxStaleness: Infinity });
    t.strictSame(
      [await early.outcome(good), await early.outcome(over)],
      expected,
      `${whenStale}, before the first snapshot`,
    );
    t.equal(await early.outcome(llt), expected[0], `${whenStale}, a long-lived token`);
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
  const { errors, verifier } = verifierOf(t, fake);
  await until(() => fake.requests.filter((line) => line.endsWith('revocations')).length >= 3);
  t.strictSame(
    errors.map(({ message }) => message),
    ['/api/auth/revocations answered 503'],
  );
  fake.refusals.clear();
  await verifier.ready();
  const stranger = verifierOf(t, { ...fake, client: { id: 'orders', secret: 'not-the-secret' } });
  await until(() => stranger.errors.length > 0);
  t.match(stranger.errors[0]?.message, /answered 401/);
  t.notMatch(stranger.errors[0]?.message, /not-the-secret/);
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
