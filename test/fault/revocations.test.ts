import { test } from 'tap';
import { faultProxy } from '../support/fault-proxy.ts';
import { startPostgres } from '../support/own-postgres.ts';
import { startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { isReady } from './harness/replica.ts';
import { revocationRounds, type Disaster } from './harness/revocation-rounds.ts';
import { startWorld } from './harness/world.ts';

test('revoked tokens stay revoked', { skip: toolsMissing('redis-server') }, async (t) => {
  const postgres = await startPostgres(t);
  const redis = await startRedis(t);
  const database = await faultProxy(t, postgres.url());
  const world = await startWorld(t, { DATABASE_URL: database.url, REDIS_URL: redis.url });

  const disasters: Disaster[] = [
    { name: 'revoked, then Redis emptied', strike: () => redis.ask('FLUSHALL') },
    {
      name: 'revoked, then Redis restored from an older snapshot',
      prepare: () => redis.ask('SAVE'),
      async strike() {
        await redis.kill();
        await redis.start();
      },
    },
    {
      name: 'revoked, then the replica killed',
      async strike(by) {
        await by.stop('SIGKILL');
        await by.start();
        await isReady(by);
      },
    },
    {
      name: 'revoked, then the replica killed and Redis emptied',
      async strike(by) {
        await Promise.all([by.stop('SIGKILL'), redis.ask('FLUSHALL')]);
        await by.start();
        await isReady(by);
      },
    },
    {
      name: 'revoked, then PostgreSQL crashed and Redis emptied',
      async strike() {
        await Promise.all([postgres.crash(), redis.ask('FLUSHALL')]);
        await postgres.start();
        database.retarget(postgres.url());
      },
    },
    {
      name: 'revoked, then PostgreSQL restarted',
      async strike() {
        await postgres.stop();
        await postgres.start();
        database.retarget(postgres.url());
      },
    },
  ];
  for (const together of [1, 2, 500])
    disasters.push({
      name: `${together} revoked together, then the replica killed, PostgreSQL crashed and Redis emptied`,
      rounds: 1,
      together,
      async strike(by) {
        await Promise.all([by.stop('SIGKILL'), postgres.crash(), redis.ask('FLUSHALL')]);
        await postgres.start();
        database.retarget(postgres.url());
        await by.start();
        await isReady(by);
      },
    });
  for (const disaster of disasters) {
    await t.test(disaster.name, (t) => revocationRounds(t, world, disaster));
  }
});
