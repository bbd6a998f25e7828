import { test } from 'tap';
import { call } from '../../support/client.ts';
import { buildTestApp } from '../../support/app.ts';
import { watchedApp } from '../../support/redis-app.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';

const skip = redisServersMissing;

test('Cluster: the store is down while a slot has no master', { skip }, async (t) => {
  const redis = await startCluster(t);
  const app = await watchedApp(t, redis.env);
  await app.good();
  const { master, replicas } = await redis.ownerOf(app.key);
  for (const node of [master, ...replicas]) await node.kill();
  await app.sees(503);
  const others = redis.nodes.filter((node) => node !== master && !replicas.includes(node));
  for (const node of others) {
    await until(async () => String(await node.ask('CLUSTER', 'INFO')).includes('cluster_state:fail'));
  }
  await app.sees(503);
  await master.start();
  await app.revokeOne();
  await app.good();
  await app.over();
});

test('Cluster: logins and signups are counted', { skip }, async (t) => {
  const redis = await startCluster(t);
  const app = await buildTestApp(t, { env: { ...redis.env, RATE_LIMIT_LOGIN: '3/60' } });
  const payload = { username: 'unknown', password: 'a wrong password' };
  const statuses: number[] = [];
  for (let i = 0; i < 5; i++) statuses.push((await call(app, 'POST /api/auth', { payload })).statusCode);
  t.strictSame(statuses, [401, 401, 401, 429, 429]);
});

test('Cluster: failed logins are counted by name and network', { skip }, async (t) => {
  const redis = await startCluster(t);
  const limits = { RATE_LIMIT_ACCOUNT: '2/60', RATE_LIMIT_NETWORK: '8/60', TRUST_PROXY: 'loopback' };
  const app = await buildTestApp(t, { env: { ...redis.env, ...limits } });
  const headers = { 'x-forwarded-for': '203.0.113.1' };
  const attempt = async (username: string) =>
    (await call(app, 'POST /api/auth', { payload: { username, password: 'x' }, headers })).statusCode;
  // Each name hashes to another slot, so every master has some.
  for (const name of ['a', 'b', 'c', 'd']) {
    t.strictSame([await attempt(name), await attempt(name), await attempt(name)], [401, 401, 429], name);
  }
  t.equal(await attempt('e'), 429);
});
