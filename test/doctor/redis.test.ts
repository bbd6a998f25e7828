import { readFileSync, rmSync } from 'node:fs';
import { test, type Test } from 'tap';
import { checkRedis } from '../../src/doctor/redis.ts';
import { judgeRedis } from '../../src/doctor/redis.ts';
import { aConfig, byCheck, waitUntilWritable, runDoctor } from '../support/doctor.ts';
import { clockAhead } from '../support/faketime.ts';
import {
  redisServersMissing as skip,
  startRedis,
  type RedisServer,
  type ServerOptions,
} from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

/** The master starts a sync at once instead of waiting for more replicas. */
const AT_ONCE = ['--repl-diskless-sync-delay', '0'];

/** A Redis of the test's own, and its findings. */
async function aRedis(t: Test, options?: ServerOptions) {
  const redis = await startRedis(t, options);
  const set = (name: string, value: string | number) => redis.ask('CONFIG', 'SET', name, value);
  return { redis, set, findings: () => findingsOf(redis) };
}

async function findingsOf({ url }: Pick<RedisServer, 'url'>) {
  return byCheck(await checkRedis(aConfig({ REDIS_URL: url })));
}

test('a healthy Redis', { skip }, async (t) => {
  const { findings } = await aRedis(t);
  t.match(await findings(), {
    redis: [{ state: 'ok', found: 'the master answers and takes writes (single)' }],
    'redis memory': [{ state: 'ok', found: 'noeviction, no maxmemory' }],
    'redis persistence': [{ state: 'ok', found: /^none/ }],
    'redis replication': [{ state: 'ok', found: 'no replicas' }],
    'clock of': [{ state: 'ok' }],
  });
});

test('eviction, and memory that is nearly full', { skip }, async (t) => {
  const { redis, set, findings } = await aRedis(t);
  for (const policy of ['allkeys-lru', 'volatile-ttl']) {
    await set('maxmemory-policy', policy);
    t.match(await findings(), { 'redis memory': [{ state: 'fail', found: new RegExp(`is ${policy}`) }] });
  }
  await set('maxmemory-policy', 'noeviction');
  const used = Number(await redis.info('used_memory'));
  await set('maxmemory', 10 * used);
  t.match(await findings(), { 'redis memory': [{ state: 'ok', found: /% of maxmemory/ }] });
  // One key uses most of the memory, so that a few connections make no difference.
  await redis.ask('SETRANGE', 'big', 50_000_000, 'x');
  await set('maxmemory', Math.round(Number(await redis.info('used_memory')) / 0.95));
  t.match(await findings(), { 'redis memory': [{ state: 'warn', found: /9\d % of maxmemory/ }] });
  await set('maxmemory', 1);
  t.match(await findings(), { redis: [{ state: 'fail', found: /^refuses writes: OOM/ }] });
});

test(
  'persistence brings old states back: an append-only file, snapshots, and failing ones',
  { skip },
  async (t) => {
    const { redis, set, findings } = await aRedis(t);
    const old = (what: string) => ({
      'redis persistence': [
        {
          state: 'warn',
          found: `${what}: a Redis that returns with old data accepts superseded tokens again`,
        },
      ],
    });
    await set('save', '900 1');
    t.match(await findings(), old('snapshots (save 900 1)'));
    await set('save', '');
    await set('appendonly', 'yes');
    t.match(await findings(), old('append-only file'));
    await until(async () => (await redis.info('aof_rewrite_in_progress')) === '0');
    await set('appendonly', 'no');
    rmSync(redis.folder, { recursive: true });
    await redis.ask('BGSAVE');
    await until(async () => (await redis.info('rdb_bgsave_in_progress')) === '0');
    t.match(await findings(), { 'redis persistence': [{ state: 'fail', found: /last snapshot failed/ }] });
  },
);

test('an append-only file that cannot be written', (t) => {
  const info = new Map([
    ['aof_enabled', '1'],
    ['aof_last_write_status', 'err'],
  ]);
  const facts = {
    address: '',
    info,
    config: () => '',
    scriptRefusal: null,
    certificateEnd: null,
    now: () => Promise.resolve(0),
  };
  const broken = { check: 'redis persistence ()', state: 'fail', found: /append-only file failed/ };
  t.match(byCheck(judgeRedis(facts, 'single')), byCheck([broken as never]));
  info.set('aof_last_write_status', 'ok');
  t.match(byCheck(judgeRedis(facts, 'single')), {
    'redis persistence': [{ state: 'warn', found: /accepts superseded/ }],
  });
  t.end();
});

test('replicas, and whether writes wait for them', { skip }, async (t) => {
  const { redis, set, findings } = await aRedis(t, { args: AT_ONCE });
  const replica = await startRedis(t, { args: ['--replicaof', `127.0.0.1 ${redis.port}`] });
  await until(async () => (await replica.info('master_link_status')) === 'up');
  t.match(await waitUntilWritable(findings), {
    'redis replication': [{ state: 'warn', found: /^1 connected, but writes need none/ }],
  });
  await set('min-replicas-to-write', 1);
  t.match(await waitUntilWritable(findings), {
    'redis replication': [{ state: 'warn', found: /min-replicas-max-lag is 10$/ }],
  });
  await set('min-replicas-max-lag', 2);
  t.match(await waitUntilWritable(findings), {
    'redis replication': [{ state: 'ok', found: /at most 2 s behind$/ }],
  });

  t.match(await findingsOf(replica), { redis: [{ state: 'fail', found: /^refuses writes: READONLY/ }] });
  await set('min-replicas-to-write', 2);
  t.match(await findings(), { redis: [{ state: 'fail', found: /^refuses writes: NOREPLICAS/ }] });
});

test('the user of docs/operating.md may not read all settings, and needs not', { skip }, async (t) => {
  const user = /^user (latchkey .+)$/m.exec(readFileSync('docs/operating.md', 'utf8'))?.[1] ?? '';
  const { redis, set } = await aRedis(t, { args: ['--user', ...user.split(' '), ...AT_ONCE] });
  const replica = await startRedis(t, { args: ['--replicaof', `127.0.0.1 ${redis.port}`] });
  await until(async () => (await replica.info('master_link_status')) === 'up');
  const url = redis.url.replace('//', '//latchkey:secret@');
  await set('maxmemory-policy', 'allkeys-lru');
  await set('min-replicas-to-write', 1);
  t.match(await waitUntilWritable(() => findingsOf({ url })), {
    redis: [{ state: 'ok' }],
    'redis memory': [{ state: 'fail', found: /allkeys-lru/ }],
    'redis persistence': [{ state: 'ok', found: /no snapshot since its start; .* is not checked/ }],
    'redis replication': [{ state: 'ok', found: /min-replicas-max-lag is not checked/ }],
    'clock of': [{ state: 'ok' }],
  });
  await redis.ask('SAVE');
  t.match(await waitUntilWritable(() => findingsOf({ url })), {
    'redis persistence': [{ state: 'warn', found: /^1 snapshots since its start: .*superseded/ }],
  });
  await redis.ask('ACL', 'SETUSER', 'latchkey', '+config|get');
  await set('min-replicas-max-lag', 2);
  t.match(await waitUntilWritable(() => findingsOf({ url })), {
    'redis persistence': [{ state: 'ok', found: /^none/ }],
    'redis replication': [{ state: 'ok' }],
  });
});

test('a Redis that runs no scripts', { skip }, async (t) => {
  for (const command of ['EVAL', 'EVALSHA']) {
    const { findings } = await aRedis(t, { args: ['--rename-command', command, ''] });
    const refused = {
      state: 'fail',
      found: new RegExp(`^refuses them: .*unknown command '${command}'`, 'i'),
    };
    t.match(await findings(), { redis: [{ state: 'ok' }], 'redis scripts': [refused] });
  }
  const { redis } = await aRedis(t, { args: ['--user', 'ada', 'on', '>sesame', '~*', '+@all', '-evalsha'] });
  t.match(await findingsOf({ url: redis.url.replace('//', '//ada:sesame@') }), {
    'redis scripts': [{ state: 'fail', found: /NOPERM/ }],
  });
});

test('a Redis that is down or refuses the login; no password in the findings', { skip }, async (t) => {
  const { redis } = await aRedis(t, { args: ['--user', 'ada', 'on', '>sesame', '~*', '+@all'] });
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
  const { redis } = await aRedis(t);
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

test('the in-process store is named', async (t) => {
  t.match(await checkRedis(aConfig()), [{ check: 'redis', state: 'warn', found: /^none/ }]);
});
