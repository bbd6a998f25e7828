import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { test } from 'tap';
import { FIELDS } from '../../src/config/fields.ts';
import { CONNECTION_LIFETIME } from '../../src/infra/postgres/client.ts';
import { testFolder } from '../support/folder.ts';
import { runPgBouncer } from '../support/pgbouncer.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { freePort } from '../support/free-port.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import { only, variablesOf } from './kinds.ts';
import { renderWith } from './render.ts';
import { secretFolder } from './secrets.ts';

const skip = toolsMissing('kubectl', 'pgbouncer', 'bash', 'openssl');

test('PgBouncer runs with the component’s configuration and the README’s Secrets', { skip }, async (t) => {
  const { url } = await testDatabase(t);
  const secrets = madeWithPgBouncer(t);
  const folder = testFolder(t);
  const users = join(folder, 'userlist.txt');
  writeFileSync(users, secrets.users);
  const port = await freePort();
  const manifests = renderWith(t, 'k8s/base', ['pgbouncer']);
  const ini =
    manifests.map((it) => (it as { data?: Record<string, string> }).data?.['pgbouncer.ini']).find(Boolean) ??
    '';
  writeFileSync(join(folder, 'pgbouncer.ini'), here(ini, url, users, port));

  const pooled = new URL(secrets.url);
  t.equal(`${pooled.hostname}:${pooled.port}`, 'pgbouncer:6432');
  t.equal(only(manifests, 'Service', 'pgbouncer').spec.ports[0]?.port, 6432);
  pooled.host = `127.0.0.1:${port}`;
  await runPgBouncer(t, folder, pooled.href);

  await t.test('the user with the password gets in', async (t) => {
    const rows = await withClient(
      pooled.href,
      async (client) => (await client.query<{ one: number }>('SELECT 1 AS one')).rows,
    );
    t.strictSame(rows, [{ one: 1 }]);
  });

  await t.test('no other user or password gets in', async (t) => {
    const wrong = new URL(pooled);
    wrong.password = 'guessed';
    await t.rejects(
      withClient(wrong.href, (client) => client.query('SELECT 1')),
      /authentication failed|SASL/,
    );
  });

  await t.test('PostgreSQL gets only its pool, for any number of clients', async (t) => {
    const size = Number(/^default_pool_size = (\d+)$/m.exec(ini)?.[1]);
    const pool = new pg.Pool({ connectionString: pooled.href, max: size + 10 });
    const count = async () => {
      const { rows } = await withClient(url, (client) =>
        client.query<{ count: number }>(
          `SELECT count(*)::int FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()`,
        ),
      );
      return rows[0]?.count ?? 0;
    };
    const work = Array.from({ length: size + 10 }, () => pool.query('SELECT pg_sleep(1)'));
    await until(async () => (await count()) >= size);
    t.equal(await count(), size);
    await Promise.all(work);
    await pool.end();
  });
});

// PgBouncer waits for its clients since 1.23. Debian's, used above, is 1.18 and disconnects them.
test('PgBouncer’s grace period covers the lifetime of its clients’ connections', { skip }, (t) => {
  const manifests = renderWith(t, 'k8s/base', ['pgbouncer']);
  const { terminationGracePeriodSeconds: grace = 30, containers } = only(manifests, 'Deployment', 'pgbouncer')
    .spec.template.spec;
  const preStop = containers[0]?.lifecycle?.preStop.sleep.seconds ?? 0;
  const timeout = FIELDS.DATABASE_TIMEOUT.schema.parse(variablesOf(manifests).DATABASE_TIMEOUT) / 1000;
  t.ok(
    preStop + CONNECTION_LIFETIME + timeout < grace,
    `${preStop} + ${CONNECTION_LIFETIME} + ${timeout} < ${grace}`,
  );
  const [, major, minor] = /:v(\d+)\.(\d+)/.exec(containers[0]?.image ?? '') ?? [];
  t.ok(Number(major) > 1 || Number(minor) >= 23, 'it waits for them');
  t.end();
});

/** The cluster's configuration, with this machine's addresses and files. */
function here(ini: string, url: string, users: string, port: number): string {
  const { hostname, port: target, pathname, username, password } = new URL(url);
  const login = `user=${username}${password === '' ? '' : ` password=${decodeURIComponent(password)}`}`;
  const database = `host=${hostname} port=${target || '5432'} dbname=${pathname.slice(1)} ${login}`;
  const changes: [from: string, to: string][] = [
    ['host=postgres port=5432', database],
    ['listen_addr = 0.0.0.0', 'listen_addr = 127.0.0.1'],
    ['listen_port = 6432', `listen_port = ${port}`],
    ['/run/secrets/pgbouncer/userlist.txt', users],
  ];
  return changes.reduce((text, [from, to]) => {
    if (!text.includes(from)) throw new Error(`pgbouncer.ini has no ${from}`);
    return text.replace(from, to);
  }, ini);
}

function madeWithPgBouncer(t: Parameters<typeof secretFolder>[0]): { users: string; url: string } {
  const folder = secretFolder(t);
  folder.run('Secrets', 0);
  folder.run('Secrets', 1);
  folder.run('Connections');
  folder.run('Secrets', 2);
  const { pgbouncer, latchkey } = folder.applied();
  return { users: pgbouncer?.['userlist.txt'] ?? '', url: latchkey?.['pooled-database-url'] ?? '' };
}
