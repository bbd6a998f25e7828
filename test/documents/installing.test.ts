import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { isAlive } from '../support/embedded.ts';
import { testFolder } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { aNewcomer, type Newcomer } from '../support/newcomer.ts';
import { readmeRights } from '../support/redis-acl.ts';
import { startTlsRedis } from '../support/redis-tls.ts';
import { startSystemPostgres, systemPostgresMissing } from '../support/system-postgres.ts';
import { startTlsPostgres } from '../support/tls-postgres.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

const skip = toolsMissing('bash', 'curl', 'git', 'npm', 'openssl', 'redis-server') || systemPostgresMissing;

test('docs/installing.md leads to two replicas, and through a rollout and a restore', { skip }, async (t) => {
  const postgres = await startTlsPostgres(t, startSystemPostgres);
  const redis = await startTlsRedis(t, '--min-replicas-to-write', '0', '--maxmemory-policy', 'noeviction');
  const caFolder = testFolder(t);
  const redisCa = join(caFolder, 'redis-ca.pem');
  writeFileSync(redisCa, redis.ca);
  await redis.ask('ACL', 'SETUSER', ...readmeRights());
  const ports = await Promise.all(
    ['3001', '3002', '9465', '9466'].map(async (port) => [port, await freePort()] as const),
  );
  const search = '?sslmode=verify-full';
  const { host, password } = new URL(postgres.url('owner'));
  const operator = await aNewcomer(t, {
    [`postgres://latchkey:secret@db.internal:5432/latchkey${search}`]: postgres.url('service'),
    [`postgres://latchkey_owner:secret-of-the-owner@db.internal:5432/latchkey${search}`]:
      postgres.url('owner'),
    'db.internal:5432': host,
    'secret-of-the-owner': password,
    'redis.internal:6380': `127.0.0.1:${redis.port}`,
    // Shorter waits.
    'KEY_PUBLISH_LEAD=600': 'KEY_PUBLISH_LEAD=6\nDRAIN_DELAY=0',
    'sleep 5': 'sleep 1',
    ...Object.fromEntries(ports.map(([port, free]) => [port, String(free)])),
  });
  t.teardown(() => endReplicas(operator));
  const conf = join(operator.home, 'latchkey');
  mkdirSync(conf);
  copyFileSync(postgres.caFile, join(conf, 'postgres-ca.pem'));
  copyFileSync(redisCa, join(conf, 'redis-ca.pem'));

  const printed = (await operator.follow('docs/installing.md')).get('Step by step') ?? '';

  t.match(printed, /^applied /m);
  t.match(printed, /^ok +database: PostgreSQL/m, 'doctor reached PostgreSQL');
  t.notMatch(printed, /^fail/m, 'doctor found no failure');
  t.match(printed, /verifying \(signed until /, 'the new key signs');
  t.match(printed, /^\{"msg":"logged out"\}$/m);
  t.match(printed, /^401\n*$/m, 'the session that ended after the backup stays ended');
  t.notMatch(printed, /^200$/m);
});

/** Ends the replicas that the page has started in the background. */
async function endReplicas({ home }: Newcomer): Promise<void> {
  const folder = join(home, 'latchkey');
  const pids = readdirSync(folder)
    .filter((name) => name.endsWith('.pid'))
    .map((name) => Number(readFileSync(join(folder, name), 'utf8')));
  for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGTERM');
  await until(() => !pids.some(isAlive));
}
