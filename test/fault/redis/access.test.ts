import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { checkRedis } from '../../../src/doctor/redis.ts';
import { signUp, verify } from '../../support/client.ts';
import { aConfig } from '../../support/doctor.ts';
import { freePort } from '../../support/free-port.ts';
import { watchedApp } from '../../support/redis-app.ts';
import { readmeRights } from '../../support/redis-acl.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';
import { startNamedTlsRedis, startTlsRedis } from '../../support/redis-tls.ts';
import { buildTestApp } from '../../support/app.ts';
import { logLines } from '../../support/log-lines.ts';
import { until } from '../../support/until.ts';

const skip = redisServersMissing;

const rights = readmeRights();
const sentinelRights = readmeRights('latchkey-sentinel', 'other');

test(
  'the Redis user of docs/operating.md has every permission that the service needs',
  { skip },
  async (t) => {
    const redis = await startRedis(t, { args: ['--user', ...rights] });
    const env = {
      REDIS_URL: redis.url.replace('//', '//latchkey:secret@'),
      RATE_LIMIT_LOGIN: '1000/60',
      RATE_LIMIT_ACCOUNT: '1000/60',
    };
    const app = await watchedApp(t, env);
    await app.good();
    await redis.ask('SCRIPT', 'FLUSH');
    await app.revokeOne();
    await app.good();
    await app.over();
    t.strictSame(await redis.ask('ACL', 'LOG'), [], 'Redis refused nothing');
  },
);

test('the same in a cluster', { skip }, async (t) => {
  const redis = await startCluster(t, '--user', ...rights);
  const app = await watchedApp(t, {
    ...redis.env,
    REDIS_URL: 'redis://latchkey:secret@cluster',
    RATE_LIMIT_ACCOUNT: '1000/60',
  });
  await app.good();
  await redis.moveSlot(app.key);
  await app.revokeOne();
  await app.good();
  await app.over();
  for (const node of redis.nodes) t.strictSame(await node.ask('ACL', 'LOG'), [], 'no node refused anything');
});

test('the same with Sentinels that have another user', { skip }, async (t) => {
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

test('a wrong password is an outage, and appears in no log', { skip }, async (t) => {
  const redis = await startRedis(t, { args: ['--user', ...rights] });
  const env = { REDIS_URL: redis.url.replace('//', '//latchkey:mistaken@') };
  const app = await buildTestApp(t, { env, storesAnswer: false });
  await until(() => failuresIn(app.log()).length > 0);
  const { hostname, port } = new URL(redis.url);
  t.match(failuresIn(app.log()), [
    {
      level: 'warn',
      code: 'WRONGPASS',
      reason: /invalid/,
      todo: /REDIS_URL/,
      host: `${hostname}:${port}`,
      database: '0',
    },
  ]);
  const { database, sessions } = (await app.composition.ops.readiness()).checks;
  t.strictSame([database, sessions], ['ok', 'Redis fails (WRONGPASS)']);
  t.equal(failuresIn(app.log()).length, 1, 'once');

  await redis.ask('CONFIG', 'SET', 'requirepass', 'other');
  const nameless = await buildTestApp(t, { env: { REDIS_URL: redis.url }, storesAnswer: false });
  await until(() => failuresIn(nameless.log()).length > 0);
  t.match(failuresIn(nameless.log()), [{ code: 'NOAUTH', todo: /REDIS_URL/ }]);
  t.notMatch(app.log(), /mistaken/);
});

test('TLS with a private CA', { skip }, async (t) => {
  const redis = await startTlsRedis(t);
  const app = await watchedApp(t, { REDIS_URL: redis.url, REDIS_CA: redis.ca });
  await app.good();
  await redis.kill();
  await app.sees(503);
  await redis.start();
  await app.good();
  await app.over();

  const stranger = await buildTestApp(t, { env: { REDIS_URL: redis.url }, storesAnswer: false });
  await until(() => failuresIn(stranger.log()).length > 0);
  t.match(failuresIn(stranger.log()), [{ code: /CERT|SIGNATURE/, todo: /REDIS_CA/ }], 'an unknown CA');
});

/** A cluster of one node, found by its name. @param announced how it names itself to clients. */
async function aNamedCluster(t: Test, ...announced: string[]) {
  const bus = ['--cluster-port', String(await freePort()), '--cluster-announce-ip', '127.0.0.1'];
  const args = ['--cluster-enabled', 'yes', '--tls-cluster', 'yes', ...bus, ...announced];
  const node = await startNamedTlsRedis(t, { args });
  await node.ask('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
  await until(async () => String(await node.ask('CLUSTER', 'INFO')).includes('cluster_state:ok'));
  return {
    REDIS_MODE: 'cluster',
    REDIS_URL: 'rediss://ignored',
    REDIS_NODES: `localhost:${node.port}`,
    REDIS_CA: node.ca,
  };
}

test('TLS with certificates that hold names only', { skip }, async (t) => {
  const single = await startNamedTlsRedis(t);
  await serves(t, { REDIS_URL: single.url, REDIS_CA: single.ca });

  const byName = [
    '--cluster-announce-hostname',
    'localhost',
    '--cluster-preferred-endpoint-type',
    'hostname',
  ];
  await serves(t, await aNamedCluster(t, ...byName));

  const master = await startNamedTlsRedis(t, { args: ['--replica-announce-ip', 'localhost'] });
  const sentinel = await startNamedTlsRedis(t, {
    program: 'redis-sentinel',
    args: ['--tls-replication', 'yes'],
    prepare: (folder) => {
      const names = ['sentinel resolve-hostnames yes', 'sentinel announce-hostnames yes'];
      const config = [...names, `sentinel monitor main localhost ${master.port} 1`].join('\n');
      writeFileSync(join(folder, 'sentinel.conf'), config);
    },
  });
  await serves(t, {
    REDIS_MODE: 'sentinel',
    REDIS_URL: 'rediss://ignored',
    REDIS_NODES: `localhost:${sentinel.port}`,
    REDIS_SENTINEL_NAME: 'main',
    REDIS_CA: `${master.ca}${sentinel.ca}`,
  });
});

async function serves(t: Test, env: Environment): Promise<void> {
  const target = await buildTestApp(t, { env });
  const { access_token: token } = await signUp(target);
  t.equal((await verify(target, token)).statusCode, 200);
}

test('log and doctor say what to announce if a cluster names its nodes by addresses', { skip }, async (t) => {
  const env = await aNamedCluster(t);
  const target = await buildTestApp(t, { env, storesAnswer: false });
  target.composition.start();
  await until(() => failuresIn(target.log()).length > 0);
  const told = { code: 'ERR_TLS_CERT_ALTNAME_INVALID', todo: /cluster-announce-hostname/ };
  t.match(failuresIn(target.log()), [told]);
  t.match(await checkRedis(aConfig(env)), [{ state: 'fail', found: /altnames/, todo: told.todo }]);
});

function failuresIn(log: string) {
  return logLines(log).filter(({ msg }) => msg === 'Redis fails');
}

test('every key begins with REDIS_PREFIX, and other keys stay untouched', { skip }, async (t) => {
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
