// suite: e2e, release
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { startDebianNginx, twoReplicaWords } from '../support/deployed-nginx.ts';
import { emulatedHost } from '../support/emulated-host.ts';
import { testFolder } from '../support/folder.ts';
import { aNewcomer } from '../support/newcomer.ts';
import { readmeRights } from '../support/redis-acl.ts';
import { startTlsRedis } from '../support/redis-tls.ts';
import { startSystemPostgres, systemPostgresMissing } from '../support/system-postgres.ts';
import { startTlsPostgres } from '../support/tls-postgres.ts';
import { toolsMissing } from '../support/tools.ts';

const skip =
  toolsMissing('bash', 'curl', 'git', 'nginx', 'npm', 'openssl', 'redis-server') || systemPostgresMissing;

test('docs/installing.md leads to two replicas, and through a rollout and a restore', { skip }, async (t) => {
  const postgres = await startTlsPostgres(t, startSystemPostgres);
  const redis = await startTlsRedis(t, '--min-replicas-to-write', '0', '--maxmemory-policy', 'noeviction');
  await redis.ask('ACL', 'SETUSER', ...readmeRights());
  const host = await emulatedHost(t);
  const conf = host.path('/etc/latchkey');
  copyFileSync(postgres.caFile, join(conf, 'postgres-ca.pem'));
  writeFileSync(join(conf, 'redis-ca.pem'), redis.ca);
  await startDebianNginx(t, host.path('/etc/nginx'));
  const nginxHere = 'nginx -p /etc/nginx -c /etc/nginx/nginx.conf -e stderr';
  const front = await twoReplicaWords(testFolder(t));
  const edits = Object.entries(front.words).map(([word, here]) => `s|${word}|${here}|`);
  const search = '?sslmode=verify-full';
  const { host: address, password } = new URL(postgres.url('owner'));
  const operator = await aNewcomer(t, {
    [`postgres://latchkey:secret@db.internal:5432/latchkey${search}`]: postgres.url('service'),
    [`postgres://latchkey_owner:secret-of-the-owner@db.internal:5432/latchkey${search}`]:
      postgres.url('owner'),
    'db.internal:5432': address,
    'secret-of-the-owner': password,
    'redis.internal:6380': `127.0.0.1:${redis.port}`,
    // Shorter waits.
    'KEY_PUBLISH_LEAD=600': `KEY_PUBLISH_LEAD=6\nDRAIN_DELAY=0\n${host.settings}`,
    'sleep 5': 'sleep 1',
    // The operator edits the copy.
    'cp deploy/nginx/two-replicas.conf': `sed '${edits.join(';')};s|:[3]000|:3000|' deploy/nginx/two-replicas.conf >`,
    'nginx -t': `${nginxHere} -t`,
    'systemctl enable --now nginx': ':',
    'systemctl reload nginx': `${nginxHere} -s reload`,
    'https://auth.example.com/': `${front.url}/`,
    ...host.words,
  });
  writeFileSync(join(operator.home, '.curlrc'), `cacert = ${front.caFile}\n`);

  const printed = (await operator.follow('docs/installing.md')).get('Step by step') ?? '';

  t.match(printed, /^applied /m);
  t.match(printed, /^ok +database: PostgreSQL/m, 'doctor reached PostgreSQL');
  t.notMatch(printed, /^fail/m, 'doctor found no failure');
  t.match(printed, /^\{"keys":\[/m, 'nginx forwards with TLS');
  const purge = readFileSync(host.path('/run/latchkey-purge.service.log'), 'utf8');
  t.match(purge, /^purged 0 records$/m, 'the unit purges');
  t.match(printed, /verifying \(signed until /, 'the new key signs');
  t.match(printed, /^\{"msg":"logged out"\}$/m);
  t.match(printed, /^401\n*$/m, 'the session that ended after the backup stays ended');
  t.notMatch(printed, /^200$/m);
});
