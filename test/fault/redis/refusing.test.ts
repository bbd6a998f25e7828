import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'tap';
import { watchedApp } from '../../support/redis-app.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';

const skip = redisServersMissing;

test('Redis cannot save, and refuses writes (MISCONF)', { skip }, async (t) => {
  const redis = await startRedis(t, { args: ['--enable-protected-configs', 'yes', '--save', '3600 1'] });
  const gone = mkdtempSync(join(tmpdir(), 'latchkey-gone-'));
  const app = await watchedApp(t, { REDIS_URL: redis.url });
  await app.good();
  await redis.ask('CONFIG', 'SET', 'dir', gone);
  rmSync(gone, { recursive: true });
  await redis.ask('BGSAVE');
  await until(async () => (await redis.info('rdb_last_bgsave_status')) === 'err');
  await app.refreshSees(503);
  await redis.ask('CONFIG', 'SET', 'dir', redis.folder);
  await redis.ask('SAVE');
  await app.revokeOne();
  await app.good();
  await app.over();
});

test('Redis loses its only replica and refuses writes', { skip }, async (t) => {
  const redis = await startRedis(t);
  const args = ['--replicaof', `127.0.0.1 ${redis.port}`, '--repl-diskless-sync-delay', '0'];
  const replica = await startRedis(t, { args });
  await until(async () => (await replica.info('master_link_status')) === 'up');
  const app = await watchedApp(t, { REDIS_URL: redis.url });
  await app.good();
  await redis.ask('CONFIG', 'SET', 'min-replicas-to-write', '1');
  await app.good();
  await replica.ask('REPLICAOF', 'NO', 'ONE');
  await app.sees(503);
  await redis.ask('CONFIG', 'SET', 'min-replicas-to-write', '0');
  await app.good();
  await app.over();
});

test('Redis loses our scripts', { skip }, async (t) => {
  const redis = await startRedis(t);
  const app = await watchedApp(t, { REDIS_URL: redis.url });
  await app.good();
  await redis.ask('SCRIPT', 'FLUSH');
  await app.revokeOne();
  await app.good();
  await app.over();
  t.equal(app.outages(), 0, 'no outage was reported');
});

test('a script of another client keeps Redis busy', { skip }, async (t) => {
  const redis = await startRedis(t, { args: ['--busy-reply-threshold', '50'] });
  const app = await watchedApp(t, { REDIS_URL: redis.url });
  await app.good();
  const busy = redis.ask('EVAL', 'while true do end', 0).catch(() => undefined);
  await app.sees(503);
  await redis.ask('SCRIPT', 'KILL');
  await busy;
  await app.good();
  await app.over();
});

test('the password of Redis changes', { skip }, async (t) => {
  const redis = await startRedis(t);
  const app = await watchedApp(t, { REDIS_URL: redis.url });
  await app.good();
  await redis.ask('ACL', 'SETUSER', 'admin', 'on', 'nopass', 'allkeys', 'allcommands');
  await redis.ask('ACL', 'SETUSER', 'default', 'off');
  await redis.askAs('admin', 'CLIENT', 'KILL', 'TYPE', 'normal');
  await app.sees(503);
  await redis.askAs('admin', 'ACL', 'SETUSER', 'default', 'on');
  await app.good();
  await app.over();
});
