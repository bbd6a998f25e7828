import { setTimeout } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { createVerifier } from '../../packages/verifier/src/create-verifier.ts';
import { valueOf } from '../support/exposition.ts';
import { testFolder } from '../support/folder.ts';
import { bearer, claimsOf, type Pair } from '../support/client.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { clockAhead, movableClock } from '../support/faketime.ts';
import { logLines } from '../support/log-lines.ts';
import { logOutOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { ready, readyService, startService, type Service } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import { enforcementOracle } from './harness/enforcement-oracle.ts';
import { outcomeOf } from './harness/verified-sessions.ts';

const skip = { skip: redisMissing || toolsMissing('faketime', 'env') };

/** The seconds by which clocks may differ. */
const LEEWAY = 5;

/** Two replicas; the second has a wrong wall clock, and its own way to PostgreSQL. */
async function twoReplicas(t: Test, ahead: number, env: Record<string, string> = {}) {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const dataDir = testFolder(t);
  const shared = { DATABASE_URL: url, REDIS_URL: redis.url, REDIS_PREFIX: redis.prefix, DATA_DIR: dataDir };
  const database = await faultProxy(t, url);
  const right = await startService(t, { ...shared, ...env });
  const wrong = await startService(t, {
    ...shared,
    DATABASE_URL: database.url,
    ...env,
    ...clockAhead(ahead),
  });
  await ready(right);
  await until(async () => Object.values((await health(wrong)).checks).every((check) => check === 'ok'));
  const offset = Date.parse((await fetch(wrong.url)).headers.get('date') ?? '') - Date.now();
  t.ok(Math.abs(offset / 1000 - ahead) < 60, `its clock says ${Math.round(offset / 1000)} s`);
  t.equal((await health(wrong)).code, Math.abs(ahead) > LEEWAY ? 503 : 200, 'ready within the leeway only');
  return { right: right.url, wrong: wrong.url, service: wrong, database, url };
}

async function health({ opsUrl }: Pick<Service, 'opsUrl'>) {
  const response = await fetch(`${opsUrl}/health/ready`);
  const body = (await response.json()) as { checks: Record<string, string>; clock: string };
  return { code: response.status, ...body };
}

async function skew({ opsUrl }: Service, store: string): Promise<number> {
  const metrics = await (await fetch(`${opsUrl}/metrics`)).text();
  return valueOf(metrics, 'latchkey_clock_skew_seconds', { store });
}

async function refreshed(url: string, { refresh_token }: Pair): Promise<Pair> {
  const response = await refreshOver(url, refresh_token);
  if (response.status !== 200) throw new Error(`no pair: ${response.status}`);
  return (await response.json()) as Pair;
}

// Within the leeway by a second: clocks are read in whole milliseconds, and a reading takes time.
for (const ahead of [4, -4, 300, -300]) {
  test(`clocks ${ahead} s apart: a session of one replica works and ends on both`, skip, async (t) => {
    const { right, wrong } = await twoReplicas(t, ahead);
    for (const [here, there] of [
      [right, wrong],
      [wrong, right],
    ] as const) {
      let pair = await signUpOver(here);
      for (let i = 0; i < 6; i++) {
        const previous = pair;
        pair = await refreshed(i % 2 ? here : there, pair);
        t.equal(await verifyOver(here, pair.access_token), 200);
        t.equal(await verifyOver(there, pair.access_token), 200);
        t.equal(await verifyOver(there, previous.access_token), 401, 'superseded');
        // A retry within the window, by Redis's clock: every replica returns the same pair.
        const again = await refreshed(there, previous);
        t.strictSame(claimsOf(again.access_token), claimsOf(pair.access_token));
      }
      t.equal(await logOutOver(there, pair.access_token), 200);
      // Long enough for the background tasks of both replicas to run.
      for (let i = 0; i < 4; i++) {
        t.equal(await verifyOver(here, pair.access_token), 401);
        t.equal((await refreshOver(here, pair.refresh_token)).status, 401);
        await setTimeout(500);
      }
    }
  });
}

for (const ahead of [3600, -3600])
  test(`a clock ${ahead} s ahead: no reader that accepts a token is said to refuse it`, skip, async (t) => {
    const { right, wrong, url } = await twoReplicas(t, ahead);
    const proxy = await faultProxy(t, right);
    const { serviceId: id, secret } = await aRegisteredService(url, 'orders');
    const operator = await aRegisteredService(url, 'operator', ['readers']);
    const oracle = enforcementOracle(t, () => [right, wrong], basic(operator).authorization);
    const metadata = await fetch(`${right}/.well-known/oauth-authorization-server`);
    const { issuer } = (await metadata.json()) as { issuer: string };
    const verifiers = (['accept', 'introspect'] as const).map((whenStale) => {
      const verifier = createVerifier({
        issuer,
        audience: 'latchkey',
        client: { id, secret },
        url: proxy.url.replace(/\/$/, ''),
        whenStale,
        reader: { instance: whenStale },
        onError: () => undefined,
      });
      t.teardown(() => verifier.close());
      oracle.add(whenStale, verifier);
      return verifier;
    });
    await Promise.all(verifiers.map((verifier) => verifier.ready()));
    const tokens = [(await signUpOver(right)).access_token, (await signUpOver(right)).access_token];
    for (const verifier of verifiers)
      for (const token of tokens) t.equal(await outcomeOf(verifier, token), 'good');
    await until(async () => (await oracle.readers()).length === 2);
    proxy.set('vanish');
    // To a clock that is ahead, each access token has expired.
    for (const [i, by] of [right, ahead < 0 ? wrong : right].entries()) {
      const token = tokens[i] ?? '';
      await until(async () => (await logOutOver(by, token)) === 200);
      oracle.note([token]);
    }
    // Each replica is asked for each kind of target.
    let answers = 0;
    for (let i = 0; i < 6; i++) {
      const answer = await oracle.look();
      if (!answer) continue;
      answers++;
      t.match(answer.counts, { enforced: 0, bounded: 0 });
    }
    t.ok(answers > 0, `${answers} answers`);
    for (const verifier of verifiers)
      t.equal(await outcomeOf(verifier, tokens[0] ?? ''), 'good', 'it accepts');
    await oracle.conclude([]);
  });

for (const ahead of [1200, -1200]) {
  test(`a clock ${ahead} s ahead: not ready, refuses no token, and says so`, skip, async (t) => {
    const { right, wrong, service, database } = await twoReplicas(t, ahead);
    const pair = await signUpOver(right);
    const doubted = async (token: string) => {
      const asked = () => fetch(`${wrong}/api/auth/verify`, { headers: bearer(token) });
      // A fresh token has expired by a clock that is ahead. By one that is behind it is good, once Redis answers in time.
      let response = await asked();
      await until(async () => {
        if (ahead < 0 && response.status === 503) response = await asked();
        return ahead > 0 || response.status !== 503;
      });
      t.equal(response.status, ahead > 0 ? 503 : 200);
      t.match(response.headers.get('retry-after'), ahead > 0 ? /^\d+$/ : null);
      t.equal(await verifyOver(right, token), 200);
      const { code, clock } = await health(service);
      const differs = ahead > 0 ? '1200 s ahead of' : '1200 s behind';
      t.equal(code, 503);
      t.match(clock, `${differs} Redis, ${differs} PostgreSQL: synchronize the clocks`);
      for (const store of ['redis', 'postgres'])
        t.ok(Math.abs((await skew(service, store)) - ahead) < 2, `the gauge of ${store}`);
    };
    await doubted(pair.access_token);
    const next = await refreshed(wrong, pair);
    database.set('refuse');
    await until(async () => (await health(service)).checks.database !== 'ok');
    await doubted(next.access_token);
    const warnings = logLines(service.log()).filter(({ msg }) => String(msg).startsWith('the clock'));
    t.equal(warnings.length, 2, 'one for each store');
    for (const { ours, theirs } of warnings) {
      const differs = (Date.parse(String(ours)) - Date.parse(String(theirs))) / 1000;
      t.ok(Math.abs(differs - ahead) < 2, `${String(ours)}, ${String(theirs)}`);
    }
  });
}

test(
  'a clock that only PostgreSQL contradicts refuses no token, stays ready, and recovers',
  skip,
  async (t) => {
    const clock = movableClock(t);
    const service = await readyService(t, clock.env);
    const { access_token: access } = await signUpOver(service.url);
    clock.ahead(1200);
    await until(async () => (await health(service)).clock !== 'ok');
    t.equal(await verifyOver(service.url, access), 503);
    t.equal((await health(service)).code, 200);
    clock.ahead(0);
    await until(async () => (await health(service)).clock === 'ok');
    t.equal(await verifyOver(service.url, access), 200);
  },
);

test(
  'a clock that is behind accepts an access token longer by that much, unless it is revoked',
  skip,
  async (t) => {
    const { right, wrong } = await twoReplicas(t, -300, { ACCESS_TOKEN_TTL: '10' });
    const [pair, other] = [await signUpOver(right), await signUpOver(right)];
    t.equal(await logOutOver(right, other.access_token), 200);
    await setTimeout(16_000); // ACCESS_TOKEN_TTL and the 5 s that clocks may differ.
    t.equal(await verifyOver(right, pair.access_token), 401);
    t.equal(await verifyOver(wrong, pair.access_token), 200);
    t.equal(await verifyOver(wrong, other.access_token), 401, 'revoked');
  },
);
