import { test } from 'tap';
import { watchedApp } from '../../support/redis-app.ts';
import { readmeRights } from '../../support/redis-acl.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';
import { startTlsRedis } from '../../support/redis-tls.ts';
import { buildTestApp } from '../../support/app.ts';
import { until } from '../../support/until.ts';

const skip = redisServersMissing;

const rights = readmeRights();
const sentinelRights = readmeRights('latchkey-sentinel', 'other');

test('the user of the README may do what is needed, and nothing is refused', { skip }, async (t) => {
  const redis = await startRedis(t, { args: ['--user', ...rights] });
  const env = { REDIS_URL: redis.url.replace('//', '//latchkey:secret@'), RATE_LIMIT_LOGIN: '1000/60' };
  const app = await watchedApp(t, env);
  await app.good();
  await redis.ask('SCRIPT', 'FLUSH');
  await app.revokeOne();
  await app.good();
  await app.over();
  t.strictSame(await redis.ask('ACL', 'LOG'), [], 'Redis refused nothing');
});

test('the same in a cluster', { skip }, async (t) => {
  const redis = await startCluster(t, '--user', ...rights);
  const app = await watchedApp(t, { ...redis.env, REDIS_URL: 'redis://latchkey:secret@cluster' });
  await app.good();
  await redis.moveSlot(app.key);
  await app.revokeOne();
  await app.good();
  await app.over();
  for (const node of redis.nodes) t.strictSame(await node.ask('ACL', 'LOG'), [], 'no node refused anything');
});

test('the same with Sentinels that know another user', { skip }, async (t) => {
  const redis = await startSentinels(t, '--user', ...rights);
  for (const sentinel of redis.sentinels) await sentinel.ask('ACL', 'SETUSER', ...sentinelRights);
  const app = await watchedApp(t, {
    ...redis.env,
    REDIS_URL: 'redis://latchkey:secret@main/0',
    REDIS_SENTINEL_USERNAME: 'latchkey-sentinel',
    REDIS_SENTINEL_PASSWORD: 'other',
  });
  await app.good();
  const old = await redis.master();
  await old.kill();
  await redis.failedOverFrom(old);
  await app.revokeOne();
  await app.good();
  await app.over();
  for (const server of [...redis.servers, ...redis.sentinels].filter((each) => each !== old)) {
    t.strictSame(await server.ask('ACL', 'LOG'), [], 'nothing was refused');
  }
});

test('a wrong password is an outage, and no log has it', { skip }, async (t) => {
  const redis = await startRedis(t, { args: ['--user', ...rights] });
  const env = { REDIS_URL: redis.url.replace('//', '//latchkey:mistaken@') };
  const app = await buildTestApp(t, { env, storesAnswer: false });
  await until(() => app.log().includes('Redis cannot be reached'));
  t.equal((await app.composition.ops.readiness()).checks.sessions, 'cannot be reached');
  t.notMatch(app.log(), /mistaken/);
});

test('TLS with a CA of its own', { skip }, async (t) => {
  const redis = await startTlsRedis(t);
  const app = await watchedApp(t, { REDIS_URL: redis.url, REDIS_CA: redis.ca });
  await app.good();
  await redis.kill();
  await app.sees(503);
  await redis.start();
  await app.good();
  await app.over();

  const stranger = await buildTestApp(t, { env: { REDIS_URL: redis.url }, storesAnswer: false });
  await until(() => stranger.log().includes('Redis cannot be reached'));
  t.equal((await stranger.composition.ops.readiness()).checks.sessions, 'cannot be reached', 'an unknown CA');
});

test('every key begins with REDIS_PREFIX, and nothing else is touched', { skip }, async (t) => {
  const redis = await startRedis(t);
  await redis.ask('SET', 'theirs', 1);
  const env = { REDIS_URL: `${redis.url}/3`, REDIS_PREFIX: 'ours:', RATE_LIMIT_LOGIN: '1000/60' };
  const app = await watchedApp(t, env);
  await app.good();
  await app.over();
  t.strictSame(await redis.ask('KEYS', '*'), ['theirs'], 'database 0');
  const [, db3] = /^db3:keys=(\d+)/m.exec(String(await redis.ask('INFO', 'keyspace'))) ?? [];
  const script = "redis.call('SELECT', 3) return redis.call('KEYS', ARGV[1])";
  const ours = (await redis.ask('EVAL', script, 0, 'ours:*')) as string[];
  t.equal(ours.length, Number(db3));
  t.ok(ours.some((key) => key.includes('limit:')) && ours.some((key) => key.includes(':t:')));
});
