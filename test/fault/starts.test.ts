import { test, type Test } from 'tap';
import { faultProxy, type FaultProxy } from '../support/fault-proxy.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { strike } from './harness/fault.ts';
import { isReady, type Replica } from './harness/replica.ts';
import { DATABASE_TIMEOUT, startWorld } from './harness/world.ts';

test('a replica starts while its stores are down', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const [database, redis] = [await faultProxy(t, (await testDatabase(t)).url), await faultProxy(t, url)];
  const world = await startWorld(t, {
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    REDIS_PREFIX: prefix,
  });
  const [, replica] = world.replicas;

  const startWithout = (name: string, fault: 'refuse' | 'vanish', stores: FaultProxy[]) =>
    t.test(name, (t) =>
      strike(t, world, {
        name: `a replica starts with ${name}`,
        bound: 6 * DATABASE_TIMEOUT,
        seconds: 2,
        async strike() {
          await replica.stop('SIGKILL');
          for (const store of stores) store.set(fault);
          await replica.start();
          await looksRight(t, replica);
        },
        async heal() {
          for (const store of stores) store.set('pass');
          await isReady(replica);
        },
      }),
    );

  await startWithout('Redis away', 'refuse', [redis]);
  await startWithout('Redis gone without a word', 'vanish', [redis]);
  await startWithout('PostgreSQL away', 'refuse', [database]);
  await startWithout('PostgreSQL gone without a word', 'vanish', [database]);
  await startWithout('both away', 'refuse', [database, redis]);
  await startWithout('both gone without a word', 'vanish', [database, redis]);
});

async function looksRight(t: Test, replica: Replica): Promise<void> {
  t.equal((await fetch(`${replica.service?.opsUrl ?? ''}/health/live`)).status, 200, 'alive');
  t.equal(await replica.readiness(), 503, 'not ready');
}
