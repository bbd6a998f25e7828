import { readFileSync, rmSync } from 'node:fs';
import { test, type Test } from 'tap';
import { checkRedis } from '../../src/doctor/redis.ts';
import { judgeRedis } from '../../src/doctor/redis-settings.ts';
import { aConfig, byCheck, onceWritable, runDoctor } from '../support/doctor.ts';
import { clockAhead } from '../support/faketime.ts';
import {
  redisServersMissing as skip,
  startRedis,
  type RedisServer,
  type ServerOptions,
} from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

/** A replica need not wait for others. */
const AT_ONCE = ['--repl-diskless-sync-delay', '0'];

/** A Redis of the test's own, and what is found of it. */
async function patient(t: Test, options?: ServerOptions) {
  const redis = await startRedis(t, options);
  const set = (name: string, value: string | number) => redis.ask('CONFIG', 'SET', name, value);
  return { redis, set, findings: () => findingsOf(redis) };
}

async function findingsOf({ url }: Pick<RedisServer, 'url'>) {
  return byCheck(await checkRedis(aConfig({ REDIS_URL: url })));
}

test('a Redis as it should be', { skip }, async (t) => {
  const { set, findings } = await patient(t);
  await set('save', '900 1');
  t.match(await findings(), {
    redis: [{ state: 'ok', found: 'the master answers and takes writes (single)' }],
    'redis memory': [{ state: 'ok', found: 'noeviction, no maxmemory' }],
    'redis persistence': [{ state: 'ok', found: /^snapshots \(save 900 1\)/ }],
    'redis replication': [{ state: 'ok', found: 'no replicas' }],
    'clock of': [{ state: 'ok' }],
  });
});

test('eviction, and a memory that is nearly full', { skip }, async (t) => {
  const { redis, set, findings } = await patient(t);
  for (const policy of ['allkeys-lru', 'volatile-ttl']) {
    await set('maxmemory-policy', policy);
    t.match(await findings(), { 'redis memory': [{ state: 'fail', found: new RegExp(`is ${policy}`) }] });
  }
  await set('maxmemory-policy', 'noeviction');
  const used = Number(await redis.info('used_memory'));
  await set('maxmemory', 10 * used);
  t.match(await findings(), { 'redis memory': [{ state: 'ok', found: /% of maxmemory/ }] });
  // Most of it used by one key, so that a connection more or less makes no difference.
  await redis.ask('SETRANGE', 'big', 50_000_000, 'x');
  await set('maxmemory', Math.round(Number(await redis.info('used_memory')) / 0.95));
  t.match(await findings(), { 'redis memory': [{ state: 'warn', found: /9\d % of maxmemory/ }] });
});

test('persistence: none, an append-only file, and snapshots that fail', { skip }, async (t) => {
  const { redis, set, findings } = await patient(t);
  t.match(await findings(), { 'redis persistence': [{ state: 'warn', found: /^none/ }] });
  await set('appendonly', 'yes');
  t.match(await findings(), { 'redis persistence': [{ state: 'ok', found: 'append-only file' }] });
  await until(async () => (await redis.info('aof_rewrite_in_progress')) === '0');
  await set('appendonly', 'no');
  rmSync(redis.folder, { recursive: true });
  await redis.ask('BGSAVE');
  await until(async () => (await redis.info('rdb_bgsave_in_progress')) === '0');
  t.match(await findings(), { 'redis persistence': [{ state: 'fail', found: /last snapshot failed/ }] });
});

test('an append-only file that cannot be written', (t) => {
  const info: Record<string, string> = { aof_enabled: '1', aof_last_write_status: 'err' };
  const facts = {
    address: '',
    info: (name: string) => info[name],
    config: () => '',
    now: () => Promise.resolve(0),
  };
  const broken = { check: 'redis persistence ()', state: 'fail', found: /cannot be written/ };
  t.match(byCheck(judgeRedis(facts, 'single')), byCheck([broken as never]));
  info.aof_last_write_status = 'ok';
  t.match(byCheck(judgeRedis(facts, 'single')), { 'redis persistence': [{ state: 'ok' }] });
  t.end();
});

test('replicas, and whether writes wait for them', { skip }, async (t) => {
  const { redis, set, findings } = await patient(t, { args: AT_ONCE });
  const replica = await startRedis(t, { args: ['--replicaof', `127.0.0.1 ${redis.port}`] });
  await until(async () => (await replica.info('master_link_status')) === 'up');
  t.match(await onceWritable(findings), {
    'redis replication': [{ state: 'warn', found: /^1 connected, and writes do not wait/ }],
  });
  await set('min-replicas-to-write', 1);
  t.match(await onceWritable(findings), {
    'redis replication': [{ state: 'warn', found: /min-replicas-max-lag is 10$/ }],
  });
  await set('min-replicas-max-lag', 2);
  t.match(await onceWritable(findings), {
    'redis replication': [{ state: 'ok', found: /at most 2 s behind$/ }],
  });

  t.match(await findingsOf(replica), { redis: [{ state: 'fail', found: /^refuses writes: READONLY/ }] });
  await set('min-replicas-to-write', 2);
  t.match(await findings(), { redis: [{ state: 'fail', found: /^refuses writes: NOREPLICAS/ }] });
});

test('what the user of the README may not ask cannot be told', { skip }, async (t) => {
  const user = /^ACL SETUSER (latchkey .+)$/m.exec(readFileSync('README.md', 'utf8'))?.[1] ?? '';
  const { redis, set } = await patient(t, { args: ['--user', ...user.split(' '), ...AT_ONCE] });
  const replica = await startRedis(t, { args: ['--replicaof', `127.0.0.1 ${redis.port}`] });
  await until(async () => (await replica.info('master_link_status')) === 'up');
  const url = redis.url.replace('//', '//latchkey:secret@');
  await set('maxmemory-policy', 'allkeys-lru');
  await set('min-replicas-to-write', 1);
  t.match(await onceWritable(() => findingsOf({ url })), {
    redis: [{ state: 'ok' }],
    'redis memory': [{ state: 'fail', found: /allkeys-lru/ }],
    'redis persistence': [{ state: 'warn', found: /cannot be told/ }],
    'redis replication': [{ state: 'warn', found: /cannot be told/ }],
    'clock of': [{ state: 'ok' }],
  });
  await redis.ask('ACL', 'SETUSER', 'latchkey', '+config|get');
  await set('min-replicas-max-lag', 2);
  t.match(await onceWritable(() => findingsOf({ url })), {
    'redis persistence': [{ state: 'warn', found: /^none/ }],
    'redis replication': [{ state: 'ok' }],
  });
});

test('a Redis that is away, or refuses us; and no password in what is said', { skip }, async (t) => {
  const { redis } = await patient(t, { args: ['--user', 'ada', 'on', '>sesame', '~*', '+@all'] });
  const reasons = {
    'redis://:sesame@127.0.0.1:1': /ECONNREFUSED/,
    [redis.url.replace('//', '//ada:open-sesame@')]: /WRONGPASS/,
    [redis.url.replace('redis:', 'rediss:')]: /./,
  };
  for (const [REDIS_URL, reason] of Object.entries(reasons)) {
    const found = await checkRedis(aConfig({ REDIS_URL }));
    t.match(found, [{ check: 'redis', state: 'fail', found: reason }]);
    t.equal(found.length, 1);
    t.notMatch(JSON.stringify(found), /sesame/);
  }
});

test('clocks that differ', { skip: skip || toolsMissing('faketime', 'env') }, async (t) => {
  const { redis } = await patient(t);
  for (const [ahead, state] of [
    [3, 'warn'],
    [-3, 'warn'],
    [60, 'fail'],
    [-60, 'fail'],
  ] as const) {
    const { findings } = await runDoctor({ REDIS_URL: redis.url, ...clockAhead(ahead) });
    const found = ahead > 0 ? /s behind ours/ : /s ahead of ours/;
    t.match(findings, { 'clock of': [{ state, found }] }, `ours ${ahead} s ahead`);
  }
});

test('the store in the process is named', async (t) => {
  t.match(await checkRedis(aConfig()), [{ check: 'redis', state: 'warn', found: /^none/ }]);
});
