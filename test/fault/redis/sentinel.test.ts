// alone
import { test } from 'tap';
import { watchedApp } from '../../support/redis-app.ts';
import { redisServersMissing } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';

const skip = redisServersMissing;

test('Sentinel: a master is killed, and the last writes are lost', { skip }, async (t) => {
  const redis = await startSentinels(t);
  const app = await watchedApp(t, redis.env);
  await app.good();
  const old = await redis.master();
  const replicas = redis.servers.filter((server) => server !== old);
  for (const replica of replicas) replica.hang();
  await old.ask('CLIENT', 'KILL', 'TYPE', 'replica');
  await app.revokeOne();
  await old.kill();
  for (const replica of replicas) replica.goOn();
  await app.sees(503);
  await app.revokeOne();
  await redis.failedOverFrom(old);
  await app.good();
  await old.start();
  await app.revokeOne();
  await app.good();
  await app.over();
});

test('Sentinel: a hanging master is replaced, and not trusted when it resumes', { skip }, async (t) => {
  const redis = await startSentinels(t);
  const app = await watchedApp(t, redis.env);
  await app.good();
  const old = await redis.master();
  old.hang();
  await app.sees(503);
  await redis.failedOverFrom(old);
  await app.revokeOne();
  old.goOn();
  await app.revokeOne();
  await app.good();
  await app.over();
});

test('Sentinel: another master is chosen while all servers are healthy', { skip }, async (t) => {
  const redis = await startSentinels(t);
  const app = await watchedApp(t, redis.env);
  await app.good();
  await app.revokeOne();
  const now = await redis.failOver();
  // The old master serves for a while: its clients must leave it.
  await until(async () => String(await now.ask('INFO', 'commandstats')).includes('cmdstat_evalsha'));
  await app.revokeOne();
  await app.good();
  await app.over();
});
