import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { testScale } from '../support/environment.ts';
import { valueOf } from '../support/exposition.ts';
import { startCluster } from '../support/redis-cluster.ts';
import { startSentinels } from '../support/redis-sentinel.ts';
import { allFollow, existing, startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { eventually } from '../support/until.ts';
import { makeBrowser } from './harness/browser.ts';
import { isReady, type Replica } from './harness/replica.ts';
import { makeRevokedWatch } from './harness/revoked-watch.ts';
import { lineOf } from './harness/tally.ts';
import {
  askingAgent,
  decisionOn,
  endAndWatch,
  inParallel,
  openVerified,
  outcomeOf,
  percentiles,
  type Ended,
  type Reader,
  type Verified,
} from './harness/verified-sessions.ts';
import { startVerifiedWorld, type VerifiedWorld } from './harness/verified-world.ts';

/** 10,000 with TEST_SCALE=25. */
const REVOCATIONS = Math.max(100, Math.round(400 * testScale));
/** At most this many revocations per round. */
const ROUND = 1000;
/** Seconds; a minute with TEST_SCALE=12 and more. */
const OUTAGE = Math.max(2, Math.min(60, 5 * testScale));

/** A key of the feed; in a cluster, the slot of `{feed}` holds them all. */
const FEED = '{feed}';

type Strike = readonly [name: string, strike: () => Promise<unknown>];

/** Ends tokens without a fault and during each fault, and checks that every reader refuses each of them from then on. */
async function missNone(
  t: Test,
  { balancer, verifier: make, oracle }: VerifiedWorld,
  readers: readonly Reader[],
  count: number,
  strikes: readonly Strike[],
): Promise<void> {
  const tokens = await openVerified(balancer, count);
  const witnesses = await openVerified(balancer, 21);
  const times = (ended: readonly Ended[]) => readers.map((_, i) => percentiles(ended, i)).join('; ');
  const decisions = async (some: readonly Verified[], by = readers) => {
    const each = by.map((reader) => inParallel(some, ({ token }) => decisionOn(reader, token)));
    return new Set((await Promise.all(each)).flat());
  };
  t.strictSame(
    await decisions([...tokens, ...witnesses]),
    new Set(['good']),
    'each token is good before it ends',
  );

  const all: Ended[] = [];
  const end = async (name: string, some: readonly Verified[], strike: () => Promise<unknown>) => {
    const fault = { isOver: false };
    const striking = strike().finally(() => (fault.isOver = true));
    const ended: Ended[] = [];
    const share = Math.ceil(some.length / 10);
    // In parts, so that some tokens are left as long as the fault lasts.
    for (let i = 0; i < some.length; i += share) {
      const part = some.slice(i, i + share);
      ended.push(...(await inParallel(part, (each) => endAndWatch(balancer, readers, each))));
      oracle.note(part.map(({ token }) => token));
      if (!fault.isOver) await sleep(300);
    }
    await striking;
    all.push(...ended);
    t.comment(`${name}: ${ended.length} revocations, ${times(ended)} from logout to refusal`);
  };

  const rounds = Math.max(strikes.length + 1, Math.ceil(count / ROUND));
  const size = Math.ceil(count / rounds);
  for (let round = 0; round < rounds; round++) {
    const [name, strike] =
      round === 0
        ? (['no fault', () => Promise.resolve()] as const)
        : existing(strikes[(round - 1) % strikes.length]);
    await end(name, tokens.slice(round * size, (round + 1) * size), strike);
  }
  t.equal(all.length, count);
  t.equal(all.filter(({ isMissed }) => isMissed).length, 0, 'none was missed');
  t.comment(`all: ${all.length} revocations, ${times(all)}`);

  t.strictSame(await decisions(tokens), new Set(['invalid_token']), 'all stay refused');
  await eventually(60, async () => {
    const outcomes = [...(await decisions(witnesses))].join();
    return outcomes === 'good' ? null : `tokens that have not ended: ${outcomes}`;
  });
  // A new verifier learns all revocations from a snapshot.
  const newcomer = make({ whenStale: 'refuse' });
  await newcomer.ready();
  t.strictSame(
    await decisions(tokens, [newcomer]),
    new Set(['invalid_token']),
    'a new verifier knows them too',
  );
}

/** Users who refresh, log out and log in all the time. */
function openBrowsers(t: Test, { balancer, replicas, tally }: VerifiedWorld) {
  const watch = makeRevokedWatch(balancer, replicas, tally);
  const browsers = [1, 2, 3, 4].map((i) =>
    makeBrowser({ balancer, watch, tally, name: `browser-${i}`, tabs: 1, isPatient: i % 2 === 0 }),
  );
  const running = browsers.map((browser) => browser.run());
  watch.start();
  const stop = async () => {
    for (const browser of browsers) browser.stop();
    await Promise.all([...running, watch.stop()]);
  };
  t.teardown(stop);
  return { stop };
}

/** How many snapshots the readers of a replica got because a new epoch had begun. */
async function newEpochs({ service }: Replica): Promise<number> {
  const response = await fetch(`${service?.opsUrl ?? ''}/metrics`);
  return valueOf(await response.text(), 'latchkey_feed_snapshots_total', { reason: 'epoch' });
}

test(
  'no revocation is missed while replicas are killed and Redis fails over',
  { skip: toolsMissing('npm', 'python3', 'redis-server', 'redis-sentinel', 'tar') },
  async (t) => {
    const sentinels = await startSentinels(t);
    const world = await startVerifiedWorld(t, sentinels.env);
    const { replicas } = world;
    // Only the feed decides on access tokens.
    const verifier = world.verifier({ whenStale: 'accept' });
    await verifier.ready();
    const nextAgent = () => world.agent({ AGENT_WHEN_STALE: 'accept' });
    let present = await nextAgent();
    await world.python();
    // A verifier in this process, and the agent that runs.
    const readers = [verifier, { verify: (token: string) => askingAgent(present).verify(token) }];
    const killAgent = async () => {
      await present.stop('SIGKILL');
      await sleep(500);
      present = await nextAgent();
    };

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
      await allFollow(sentinels.servers, 1);
    };
    await missNone(t, world, readers, REVOCATIONS, [
      ['the agent killed', killAgent],
      ['a replica killed', () => killReplica(replicas[0])],
      ['Redis failed over', failOver],
      ['the agent killed while Redis fails over', () => Promise.all([killAgent(), failOver()])],
      ['the other replica killed', () => killReplica(replicas[1])],
      [
        'Redis failed over while a replica is killed',
        () => Promise.all([failOver(), killReplica(replicas[0])]),
      ],
    ]);
    await world.oracle.conclude(['verifier-1', present.instance, 'python']);
  },
);

test(
  'no revocation is missed while the feed moves within a Redis Cluster',
  { skip: toolsMissing('npm', 'redis-server', 'tar') },
  async (t) => {
    const cluster = await startCluster(t);
    const world = await startVerifiedWorld(t, cluster.env);
    const { replicas, tally } = world;
    // A reader on each replica; only the feed decides on access tokens.
    const readers = replicas.map(({ url }) => world.verifier({ url, whenStale: 'accept' }));
    await Promise.all(readers.map((reader) => reader.ready()));
    const users = openBrowsers(t, world);

    /** Resolves once the readers of each replica got a snapshot of another epoch. */
    const moved = async (move: () => Promise<unknown>) => {
      const before = await Promise.all(replicas.map(newEpochs));
      await move();
      await eventually(60, async () => {
        const after = await Promise.all(replicas.map(newEpochs));
        const waiting = after.filter((count, i) => count === before[i]).length;
        return waiting === 0 ? null : `${waiting} readers without a snapshot`;
      });
    };
    let { master } = await cluster.ownerOf(FEED);
    const losesMaster = async () => {
      const old = master;
      const next = existing((await cluster.ownerOf(FEED, old)).replicas[0]);
      // A replica that may not log in follows no longer, so the last second of writes is lost.
      await next.ask('CONFIG', 'SET', 'masterauth', 'wrong');
      await old.ask('CLIENT', 'KILL', 'TYPE', 'replica');
      await sleep(1000);
      const [written, copied] = [await old.info('master_repl_offset'), await next.info('slave_repl_offset')];
      t.ok(Number(written) > Number(copied), `${Number(written) - Number(copied)} bytes are lost`);
      await old.kill();
      master = await cluster.failedOverFrom(old, FEED);
      await next.ask('CONFIG', 'SET', 'masterauth', '');
      await old.start();
      await allFollow(cluster.nodes, 3);
    };
    const movesSlot = async () => {
      master = await cluster.moveSlot(FEED);
    };
    await missNone(t, world, readers, Math.ceil(REVOCATIONS / 2), [
      ['the master of the feed killed', () => moved(losesMaster)],
      ['the slot of the feed moved', () => moved(movesSlot)],
      ['its new master killed', () => moved(losesMaster)],
    ]);

    for (const reader of readers) {
      await eventually(60, () =>
        Promise.resolve(reader.staleness() < 5 ? null : `${reader.staleness()} s stale`),
      );
    }
    await users.stop();
    t.ok(tally.revokedTried > 0, 'revoked tokens were tried');
    t.equal(tally.revokedAccepted, 0, 'no revoked token was accepted');
    t.equal(tally.signOuts, 0, 'no user was signed out');
    t.comment(lineOf('the feed moves within a Redis Cluster', tally));
    await world.oracle.conclude(['verifier-1', 'verifier-2']);
  },
);

test(
  'with Latchkey down, valid tokens stay valid and revoked ones stay refused',
  { skip: toolsMissing('npm', 'redis-server', 'tar') },
  async (t) => {
    const redis = await startRedis(t);
    const { replicas, balancer, verifier: make } = await startVerifiedWorld(t, { REDIS_URL: redis.url });
    const verifier = make();
    await verifier.ready();
    const [good, ended, later] = await Promise.all([1, 2, 3].map(() => openVerified(balancer, 22)));
    const outcomes = async (some: readonly Verified[] = []) =>
      new Set(await inParallel(some, ({ token }) => outcomeOf(verifier, token)));
    for (const { token } of [...(good ?? []), ...(ended ?? []), ...(later ?? [])])
      await decisionOn(verifier, token);
    t.strictSame(await outcomes([...(good ?? []), ...(ended ?? []), ...(later ?? [])]), new Set(['good']));
    await inParallel(ended ?? [], (each) => endAndWatch(balancer, [verifier], each));

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
    const ends = await inParallel(later ?? [], (each) => endAndWatch(balancer, [verifier], each));
    t.equal(ends.filter(({ isMissed }) => isMissed).length, 0, 'it follows the feed again');
    t.strictSame(await outcomes(good), new Set(['good']));
  },
);
