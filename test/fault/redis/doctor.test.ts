import { test } from 'tap';
import { checkRedis } from '../../../src/doctor/redis.ts';
import { aConfig, byCheck, waitUntilWritable } from '../../support/doctor.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { existing, redisServersMissing as skip } from '../../support/redis-server.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';

const SAFE = ['--min-replicas-to-write', '1', '--min-replicas-max-lag', '2'];

test('doctor checks the master that the Sentinels name', { skip }, async (t) => {
  const servers = await startSentinels(t, ...SAFE);
  const findings = async () => byCheck(await checkRedis(aConfig(servers.env)));
  t.match(await waitUntilWritable(findings), {
    redis: [{ state: 'ok', found: /sentinel/ }],
    'redis memory': [{ state: 'ok' }],
    'redis persistence': [{ state: 'ok' }],
    'redis replication': [{ state: 'ok', found: /^2 connected/ }],
    'clock of': [{ state: 'ok' }],
  });
  const master = await servers.failOver();
  await master.ask('CONFIG', 'SET', 'maxmemory-policy', 'allkeys-lru');
  // The master refuses writes until the others follow it.
  t.match(await waitUntilWritable(findings), { 'redis memory': [{ state: 'fail' }] });
});

test('doctor checks every master of a cluster', { skip }, async (t) => {
  const cluster = await startCluster(t, ...SAFE);
  const findings = async () => byCheck(await checkRedis(aConfig({ ...cluster.env })));
  const sound = await waitUntilWritable(findings);
  t.match(sound, { redis: [{ state: 'ok', found: /^3 masters answer/ }] });
  for (const check of [
    'redis memory',
    'redis persistence',
    'redis replication',
    'redis cluster',
    'clock of',
  ]) {
    t.strictSame(
      sound[check]?.map(({ state }) => state),
      ['ok', 'ok', 'ok'],
      check,
    );
  }
  const { master, replicas } = await cluster.ownerOf('any');
  await master.ask('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru');
  await master.ask('CONFIG', 'SET', 'cluster-require-full-coverage', 'no');
  // Without its replica no server can take over, so the master need not wait for one.
  await master.ask('CONFIG', 'SET', 'min-replicas-to-write', 0);
  await existing(replicas[0]).kill();
  const sick = await waitUntilWritable(findings);
  t.strictSame(sick['redis memory']?.map(({ state }) => state).sort(), ['fail', 'ok', 'ok']);
  t.strictSame(sick['redis cluster']?.map(({ state }) => state).sort(), ['ok', 'ok', 'warn']);
  t.match(
    sick['redis replication']?.filter(({ state }) => state !== 'ok'),
    [{ state: 'warn', found: /^no replica is connected/ }],
  );
});
