import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { test, type Test } from 'tap';
import { connectionOf } from '../../src/infra/postgres/connection.ts';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { goThrough } from '../support/all-operations.ts';
import { buildTestApp } from '../support/app.ts';
import { makeCertificates } from '../support/certificates.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { logLines } from '../support/log-lines.ts';
import { startService } from '../support/service.ts';
import { sqlOf, startTlsPostgres, type TlsPostgres } from '../support/tls-postgres.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const skip = toolsMissing('openssl');

test('PostgreSQL over TLS, with the two roles of docs/operating.md', { skip }, async (t) => {
  const postgres = await startTlsPostgres(t);
  const { caFile } = postgres;
  const owner = { DATABASE_URL: postgres.url('owner'), DATABASE_CA_FILE: caFile };
  const serving = { DATABASE_URL: postgres.url('service'), DATABASE_CA_FILE: caFile };

  await t.test('before the migration, requests get 503 and the log says what to run', async (t) => {
    const env = { DATABASE_URL: serving.DATABASE_URL, DATABASE_CA: postgres.ca };
    const app = await buildTestApp(t, { env, databaseUrl: env.DATABASE_URL, storesAnswer: false });
    const payload = { username: 'ada', password: 'analytical engine' };
    const response = await app.inject({ method: 'POST', url: '/api/auth', payload });
    t.equal(response.statusCode, 503);
    t.match(response.headers['retry-after'], /^\d+$/);
    t.match(failuresIn(app.log()), [{ code: '42P01', todo: /`npm run migrate`/, database: 'latchkey' }]);
    t.equal(failuresIn(app.log()).length, 1, 'once');
    t.notMatch(app.log(), /Prisma|"level":"error"/);
  });

  await t.test('the owner migrates', async (t) => {
    t.match(await latchkey(['migrate'], owner), { code: 0, stdout: /^applied / });
  });

  await t.test('a migration may take longer than the statement_timeout of its role', async (t) => {
    await postgres.ask("ALTER ROLE latchkey_owner SET statement_timeout = '1s'");
    const folder = testFolder(t);
    mkdirSync(join(folder, '29990101000000_slow'));
    writeFileSync(join(folder, '29990101000000_slow/migration.sql'), 'SELECT pg_sleep(1.1);');
    const { applied } = await migrate(owner.DATABASE_URL, { ca: postgres.ca, folder });
    t.strictSame(applied, ['29990101000000_slow']);
    await postgres.ask('ALTER ROLE latchkey_owner RESET statement_timeout');
  });

  await t.test('the serving role does all that the service and its commands do', async (t) => {
    const service = await startService(t, serving);
    await goThrough(t, service);
    const [, end] =
      /^latchkey_store_certificate_expiry_timestamp_seconds{store="postgres"} (\d+)$/m.exec(
        await (await fetch(`${service.opsUrl}/metrics`)).text(),
      ) ?? [];
    const days = (Number(end) - Date.now() / 1000) / 86_400;
    t.ok(days > 1 && days < 3, `the certificate of two days ends in ${days}`);
    t.equal(await service.stop(), 0);
    for (const command of [['purge'], ['client', 'list'], ['migrate']]) {
      t.match(await latchkey(command, serving), { code: 0 }, command.join(' '));
    }
    const { stdout } = await latchkey(['doctor'], serving);
    t.match(stdout, /^ok +database: PostgreSQL/m);
    t.match(stdout, /^ok +database timeouts/m);
    t.match(stdout, /^warn +certificate of the database: expires on .*renew/m);
  });

  await t.test('the serving role cannot change the schema', async (t) => {
    const client = new pg.Client(connectionOf(serving.DATABASE_URL, postgres.ca));
    await client.connect();
    for (const statement of [
      'CREATE TABLE more (id int)',
      'ALTER TABLE users ADD COLUMN more int',
      'DROP TABLE users',
      'TRUNCATE users CASCADE',
      'CREATE INDEX ON users (id)',
      'CREATE SCHEMA more',
    ]) {
      await t.rejects(client.query(statement), { code: '42501' }, statement);
    }
    await client.end();
  });

  await t.test('a database of one role is handed over', async (t) => {
    await postgres.ask('REASSIGN OWNED BY latchkey_owner TO latchkey', ...sqlOf(2));
    t.match(await latchkey(['purge'], serving), { code: 0, stderr: '' });
    t.match(await latchkey(['migrate'], owner), { code: 0, stderr: '' });
  });

  await t.test('commands refuse a server of another CA, and a missing file', async (t) => {
    const stranger = makeCertificates(testFolder(t), 'stranger').ca;
    const { DATABASE_URL } = owner;
    for (const env of [{ DATABASE_URL, DATABASE_CA: stranger }, { DATABASE_URL }]) {
      const { code, stderr } = await latchkey(['migrate'], env);
      t.equal(code, 1);
      t.match(stderr, /certificate/);
    }
    t.match(await latchkey(['purge'], { DATABASE_URL, DATABASE_CA: stranger }), {
      code: 1,
      stderr: /PostgreSQL .*certificate/,
    });
    t.match(await latchkey(['purge'], { DATABASE_URL, DATABASE_CA_FILE: '/nowhere' }), {
      code: 1,
      stderr: /DATABASE_CA_FILE cannot be read \(ENOENT\)/,
    });
    t.match(await latchkey(['migrate'], { DATABASE_URL: `${DATABASE_URL}&sslrootcert=/nowhere` }), {
      code: 1,
      stderr: /sslrootcert=\/nowhere cannot be read \(ENOENT\)/,
    });
  });

  await t.test('each cause is logged once, with what to do', (t) => tryCauses(t, postgres));
});

async function tryCauses(t: Test, { url, ca }: TlsPostgres): Promise<void> {
  const stranger = makeCertificates(testFolder(t), 'stranger').ca;
  const causes: [code: RegExp, todo: RegExp, change: (url: URL) => void, ca?: string][] = [
    [/^28P01$/, /password in DATABASE_URL/, (to) => (to.password = 'mistaken')],
    [/^3D000$/, /name of the database/, (to) => (to.pathname = '/unknown')],
    [/^(ENOTFOUND|EAI_AGAIN)$/, /DNS/, (to) => (to.hostname = 'nowhere.invalid')],
    [/^ECONNREFUSED$/, /port/, (to) => (to.port = '1')],
    [/CERT|SIGNATURE/, /DATABASE_CA/, () => undefined, stranger],
    [/CERT_ALTNAME/, /DATABASE_CA/, (to) => (to.hostname = 'localhost')],
  ];
  for (const [code, todo, change, given = ca] of causes) {
    const databaseUrl = url('service', change);
    const env = { DATABASE_URL: databaseUrl, DATABASE_CA: given };
    const app = await buildTestApp(t, { env, databaseUrl, storesAnswer: false });
    await until(() => failuresIn(app.log()).length > 0);
    const { host, pathname, password } = new URL(databaseUrl);
    const failure = { level: 'warn', code, reason: /.+/, todo, host, database: pathname.slice(1) };
    t.match(failuresIn(app.log()), [failure]);
    const { database, sessions } = (await app.composition.ops.readiness()).checks;
    const [logged] = failuresIn(app.log());
    t.equal(database, `PostgreSQL fails (${String(logged?.code)})`, 'ready names the cause');
    t.equal(sessions, 'ok', 'and no other store');
    t.equal(failuresIn(app.log()).length, 1, 'once');
    t.notOk(app.log().includes(password), 'without the password');
  }
}

function failuresIn(log: string) {
  return logLines(log).filter(({ msg }) => msg === 'PostgreSQL fails');
}
