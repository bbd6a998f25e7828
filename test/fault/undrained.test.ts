// release
import { test } from 'tap';
import { testDatabase } from '../support/postgres.ts';
import { startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { eventually } from '../support/until.ts';
import { startFleet } from './harness/fleet.ts';

const skip = toolsMissing('bash', 'nginx', 'redis-server');

test('clients and nginx notice a replica that does not drain', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = await startRedis(t);
  const fleet = await startFleet(t, { DATABASE_URL: url, REDIS_URL: redis.url }, [undefined, undefined]);
  await fleet.renewed(1);
  const [dying] = fleet.replicas;
  await dying?.stop('SIGKILL');
  await eventually(20, () => Promise.resolve(fleet.tally.retries > 0 ? null : 'no client retried'));
  await fleet.stop();
  t.ok(
    fleet.nginx.passed().some(({ status }) => status === 502),
    'nginx could not forward a request',
  );
  t.ok(fleet.tally.lost > 0, 'a client counts the lost request');
});
