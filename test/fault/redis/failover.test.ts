// alone
import { test, type Test } from 'tap';
import { watchedApp } from '../../support/redis-app.ts';
import { startCluster, type ClusterServers } from '../../support/redis-cluster.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';
import { redisServersMissing } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';

const skip = redisServersMissing;

type Servers = Pick<ClusterServers, 'env' | 'ownerOf' | 'failedOverFrom' | 'failOver'>;

/** All keys have one owner. */
async function sentinels(t: Test): Promise<Servers> {
  const redis = await startSentinels(t);
  return {
    ...redis,
    async ownerOf() {
      const master = await redis.master();
      return { master, replicas: redis.servers.filter((server) => server !== master) };
    },
    async failOver() {
      const now = await redis.failOver();
      // The old master serves for a while: its clients must leave it.
      await until(async () => String(await now.ask('INFO', 'commandstats')).includes('cmdstat_evalsha'));
      return now;
    },
  };
}

const KINDS: Record<string, (t: Test) => Promise<Servers>> = { Sentinel: sentinels, Cluster: startCluster };

for (const [kind, start] of Object.entries(KINDS)) {
  test(`${kind}: a master is killed, and the last writes are lost`, { skip }, async (t) => {
    const redis = await start(t);
    const app = await watchedApp(t, redis.env);
    await app.good();
    const { master: old, replicas } = await redis.ownerOf(app.key);
    for (const replica of replicas) replica.hang();
    await old.ask('CLIENT', 'KILL', 'TYPE', 'replica');
    await app.revokeOne();
    await old.kill();
    for (const replica of replicas) replica.goOn();
    await app.sees(503);
    await app.revokeOne();
    await redis.failedOverFrom(old, app.key);
    await app.good();
    await old.start();
    await app.revokeOne();
    await app.good();
    await app.over();
  });

  test(`${kind}: a hanging master is replaced, and not trusted when it resumes`, { skip }, async (t) => {
    const redis = await start(t);
    const app = await watchedApp(t, redis.env);
    await app.good();
    const { master: old } = await redis.ownerOf(app.key);
    old.hang();
    await app.sees(503);
    await redis.failedOverFrom(old, app.key);
    await app.revokeOne();
    old.goOn();
    await app.revokeOne();
    await app.good();
    await app.over();
  });

  test(`${kind}: another master is chosen while all servers are healthy`, { skip }, async (t) => {
    const redis = await start(t);
    const app = await watchedApp(t, redis.env);
    await app.good();
    await app.revokeOne();
    await redis.failOver(app.key);
    await app.revokeOne();
    await app.good();
    await app.over();
  });
}
