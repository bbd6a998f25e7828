// alone
import { test } from 'tap';
import { testDatabase } from '../support/postgres.ts';
import { startCluster } from '../support/redis-cluster.ts';
import { startSentinels } from '../support/redis-sentinel.ts';
import { allFollow } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { strike } from './harness/fault.ts';
import { isReady, type Replica } from './harness/replica.ts';
import { revocationRounds, type Disaster } from './harness/revocation-rounds.ts';
import { startWorld } from './harness/world.ts';

/** The contract allows one second for an outage of Redis; the rest is a margin for a busy machine. */
const BOUND = 3000;
/** A key of some user: the owner of its slot holds a third of the users. */
const KEY = '{1}';

/** Of two rounds, one strikes the replica that renews tombstones. @param losesMaster fails over and resolves afterwards. */
function disastersOf(kind: string, losesMaster: () => Promise<void>): Disaster[] {
  const signal = ({ service }: Replica, name: NodeJS.Signals) => service?.process.kill(name);
  return [
    { name: `revoked, then Redis failed over (${kind})`, strike: losesMaster },
    {
      name: `revoked, then the replica killed and Redis failed over (${kind})`,
      rounds: 2,
      async strike(by) {
        await Promise.all([by.stop('SIGKILL'), losesMaster()]);
        await by.start();
        await isReady(by);
      },
    },
    {
      name: `revoked, then the replica stopped and Redis failed over (${kind})`,
      rounds: 2,
      async strike(by) {
        signal(by, 'SIGSTOP');
        await losesMaster();
        signal(by, 'SIGCONT');
        await isReady(by);
      },
    },
  ];
}

test(
  'Redis Sentinel fails over under load',
  { skip: toolsMissing('redis-server', 'redis-sentinel') },
  async (t) => {
    const { url } = await testDatabase(t);
    const sentinels = await startSentinels(t);
    const world = await startWorld(t, { DATABASE_URL: url, ...sentinels.env });
    await world.recovered(30);

    const losesMaster = async () => {
      const old = await sentinels.master();
      await old.kill();
      await sentinels.failedOverFrom(old);
      // The old master returns as a replica; the next failover needs one.
      await old.start();
      await allFollow(sentinels.servers, 1);
    };
    const hangs = async () => {
      const old = await sentinels.master();
      old.hang();
      await sentinels.failedOverFrom(old);
      old.goOn();
      await allFollow(sentinels.servers, 1);
    };
    for (const [name, strikeIt] of [
      ['Sentinel: the master killed', losesMaster],
      ['Sentinel: the master hung, and back as a stale one', hangs],
      ['Sentinel: failover asked for', () => sentinels.failOver()],
    ] as const) {
      await t.test(name, (t) => strike(t, world, { name, bound: BOUND, seconds: 0, strike: strikeIt }));
    }
    for (const disaster of disastersOf('Sentinel', losesMaster))
      await t.test(disaster.name, (t) => revocationRounds(t, world, disaster));
  },
);

test('Redis Cluster fails over under load', { skip: toolsMissing('redis-server') }, async (t) => {
  const { url } = await testDatabase(t);
  const cluster = await startCluster(t);
  const world = await startWorld(t, { DATABASE_URL: url, ...cluster.env });
  await world.recovered(30);

  const losesMaster = async () => {
    const { master } = await cluster.ownerOf(KEY);
    await master.kill();
    await cluster.failedOverFrom(master, KEY);
    await master.start();
    await allFollow(cluster.nodes, 3);
  };
  for (const [name, strikeIt] of [
    ['Cluster: a master killed', losesMaster],
    ['Cluster: failover asked for', () => cluster.failOver(KEY)],
    ['Cluster: a slot moved', () => cluster.moveSlot(KEY)],
  ] as const) {
    await t.test(name, (t) => strike(t, world, { name, bound: BOUND, seconds: 0, strike: strikeIt }));
  }
  for (const disaster of disastersOf('Cluster', losesMaster))
    await t.test(disaster.name, (t) => revocationRounds(t, world, disaster));
});
