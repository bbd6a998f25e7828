import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { createVerifier, type VerifierOptions } from '../../src/verifier/main.ts';
import { testFolder } from '../support/folder.ts';
import { testScale } from '../support/environment.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { startSentinels } from '../support/redis-sentinel.ts';
import { existing, startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { makeBalancer } from './harness/balancer.ts';
import { eventually } from '../support/until.ts';
import { isReady, startReplica } from './harness/replica.ts';
import { startServiceAddress } from './harness/service-address.ts';
import { makeTally } from './harness/tally.ts';
import {
  decisionOn,
  endAndWatch,
  inParallel,
  openVerified,
  outcomeOf,
  percentiles,
  type Ended,
  type Verified,
} from './harness/verified-sessions.ts';

/** 10,000 with TEST_SCALE=25. */
const REVOCATIONS = Math.max(100, Math.round(400 * testScale));
/** At most this many revocations per round. */
const ROUND = 1000;
/** Seconds; a minute with TEST_SCALE=12 and more. */
const OUTAGE = Math.max(2, Math.min(60, 5 * testScale));

const ISSUER = 'https://id.example.com';
/** Longer than any run: an expired token would count as a revoked one. */
const LIFETIME = '86400';

/** Two replicas behind one address for the verifier. */
async function startWorld(t: Test, stores: Environment) {
  const { url: database } = await testDatabase(t);
  const dataDir = testFolder(t);
  const env = { DATABASE_URL: database, DATA_DIR: dataDir, ISSUER, ACCESS_TOKEN_TTL: LIFETIME, ...stores };
  const replicas = [await startReplica(t, env), await startReplica(t, env)] as const;
  await Promise.all(replicas.map((replica) => isReady(replica, 60)));
  const balancer = makeBalancer(replicas, makeTally());
  t.teardown(() => balancer.close());

  const created = await latchkey(['client', 'create', 'orders', '--json'], { DATABASE_URL: database });
  const { client_id: id, client_secret: secret } = JSON.parse(created.stdout) as Record<string, string>;
  const url = await startServiceAddress(t, replicas);
  const verifier = (options: Partial<VerifierOptions> = {}) => {
    const client = { id: id ?? '', secret: secret ?? '' };
    const made = createVerifier({ issuer: ISSUER, audience: 'latchkey', client, url, ...options });
    t.teardown(() => made.close());
    return made;
  };
  return { replicas, balancer, verifier };
}

test(
  'no revocation is missed while replicas are killed and Redis fails over',
  { skip: toolsMissing('redis-server', 'redis-sentinel') },
  async (t) => {
    const sentinels = await startSentinels(t);
    const { replicas, balancer, verifier: make } = await startWorld(t, sentinels.env);
    // Only the feed decides on access tokens.
    const verifier = make({ whenStale: 'accept' });
    await verifier.ready();
    const tokens = await openVerified(balancer, REVOCATIONS);
    const witnesses = await openVerified(balancer, 21);
    const good = await inParallel([...tokens, ...witnesses], ({ token }) => decisionOn(verifier, token));
    t.strictSame(new Set(good), new Set(['good']), 'each token is good before it ends');

    const killReplica = async (replica: (typeof replicas)[number]) => {
      await replica.stop('SIGKILL');
      await sleep(500);
      await replica.start();
      await isReady(replica, 60);
    };
    const failOver = async () => {
      const old = await sentinels.master();
      await old.kill();
      await sentinels.failedOverFrom(old);
      await old.start();
      await eventually(60, async () => {
        const links = sentinels.servers.map((each) => each.info('master_link_status').catch(() => 'away'));
        const up = (await Promise.all(links)).filter((link) => link === 'up').length;
        return up === sentinels.servers.length - 1 ? null : `${up} replicas follow`;
      });
    };
    const strikes = [
      ['a replica killed', () => killReplica(replicas[0])],
      ['Redis failed over', failOver],
      ['the other replica killed', () => killReplica(replicas[1])],
      [
        'Redis failed over while a replica is killed',
        () => Promise.all([failOver(), killReplica(replicas[0])]),
      ],
    ] as const;

    const all: Ended[] = [];
    const end = async (name: string, some: readonly Verified[], strike: () => Promise<unknown>) => {
      const fault = { isOver: false };
      const striking = strike().finally(() => (fault.isOver = true));
      const ended: Ended[] = [];
      const share = Math.ceil(some.length / 10);
      // In parts, so that some tokens are left as long as the fault lasts.
      for (let i = 0; i < some.length; i += share) {
        const part = some.slice(i, i + share);
        ended.push(...(await inParallel(part, (each) => endAndWatch(balancer, verifier, each))));
        if (!fault.isOver) await sleep(300);
      }
      await striking;
      all.push(...ended);
      t.comment(`${name}: ${ended.length} revocations, ${percentiles(ended)} from logout to refusal`);
    };

    const rounds = Math.max(strikes.length + 1, Math.ceil(REVOCATIONS / ROUND));
    const size = Math.ceil(REVOCATIONS / rounds);
    for (let round = 0; round < rounds; round++) {
      const [name, strike] =
        round === 0
          ? (['no fault', () => Promise.resolve()] as const)
          : existing(strikes[(round - 1) % strikes.length]);
      await end(name, tokens.slice(round * size, (round + 1) * size), strike);
    }
    t.equal(all.length, REVOCATIONS);
    t.equal(all.filter(({ isMissed }) => isMissed).length, 0, 'none was missed');
    t.comment(`all: ${all.length} revocations, ${percentiles(all)}`);

    const later = await inParallel(tokens, ({ token }) => decisionOn(verifier, token));
    t.strictSame(new Set(later), new Set(['invalid_token']), 'all stay refused');
    await eventually(60, async () => {
      const outcomes = await inParallel(witnesses, ({ token }) => decisionOn(verifier, token));
      return outcomes.every((outcome) => outcome === 'good')
        ? null
        : `tokens that have not ended: ${outcomes.join()}`;
    });
    // A new verifier learns all revocations from a snapshot.
    const newcomer = make({ whenStale: 'refuse' });
    await newcomer.ready();
    const known = await inParallel(tokens, ({ token }) => decisionOn(newcomer, token));
    t.strictSame(new Set(known), new Set(['invalid_token']), 'a new verifier knows them too');
  },
);

test(
  'with Latchkey down, valid tokens stay valid and revoked ones stay refused',
  { skip: toolsMissing('redis-server') },
  async (t) => {
    const redis = await startRedis(t);
    const { replicas, balancer, verifier: make } = await startWorld(t, { REDIS_URL: redis.url });
    const verifier = make();
    await verifier.ready();
    const [good, ended, later] = await Promise.all([1, 2, 3].map(() => openVerified(balancer, 22)));
    const outcomes = async (some: readonly Verified[] = []) =>
      new Set(await inParallel(some, ({ token }) => outcomeOf(verifier, token)));
    for (const { token } of [...(good ?? []), ...(ended ?? []), ...(later ?? [])])
      await decisionOn(verifier, token);
    t.strictSame(await outcomes([...(good ?? []), ...(ended ?? []), ...(later ?? [])]), new Set(['good']));
    await inParallel(ended ?? [], (each) => endAndWatch(balancer, verifier, each));

    await Promise.all(replicas.map((replica) => replica.stop('SIGTERM')));
    const since = performance.now();
    let looks = 0;
    const wrong: string[] = [];
    while (performance.now() - since < OUTAGE * 1000) {
      looks++;
      const [a, b] = [await outcomes(good), await outcomes(ended)];
      if (a.size !== 1 || !a.has('good')) wrong.push(`valid: ${[...a].join()}`);
      if (b.size !== 1 || !b.has('invalid_token')) wrong.push(`revoked: ${[...b].join()}`);
      await sleep(100);
    }
    t.strictSame(wrong, [], `${looks} checks in ${OUTAGE} s`);
    t.ok(verifier.staleness() >= OUTAGE - 1, `reported staleness: ${verifier.staleness().toFixed(1)} s`);

    await Promise.all(replicas.map((replica) => replica.start()));
    await eventually(60, () =>
      Promise.resolve(verifier.staleness() < OUTAGE ? null : `${verifier.staleness()} s stale`),
    );
    const ends = await inParallel(later ?? [], (each) => endAndWatch(balancer, verifier, each));
    t.equal(ends.filter(({ isMissed }) => isMissed).length, 0, 'it follows the feed again');
    t.strictSame(await outcomes(good), new Set(['good']));
  },
);
