// alone
import { test } from 'tap';
import { watchedApp } from '../../support/redis-app.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing } from '../../support/redis-server.ts';

const skip = redisServersMissing;

test('Cluster: a master is killed, and the last writes are lost', { skip }, async (t) => {
  const redis = await startCluster(t);
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

test('Cluster: a hanging master is replaced, and not trusted when it resumes', { skip }, async (t) => {
  const redis = await startCluster(t);
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

test('Cluster: a replica takes over while all servers are healthy', { skip }, async (t) => {
  const redis = await startCluster(t);
  const app = await watchedApp(t, redis.env);
  await app.good();
  await app.revokeOne();
  await redis.failOver(app.key);
  await app.revokeOne();
  await app.good();
  await app.over();
});
