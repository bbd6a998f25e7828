import { test, type Test } from 'tap';
import { checkDatabase, judgeServer } from '../../src/doctor/database.ts';
import type { PostgresFacts } from '../../src/infra/postgres/inspect.ts';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { clockAhead } from '../support/faketime.ts';
import { aConfig, byCheck, runDoctor } from '../support/doctor.ts';
import { LAST_OF_FIRST, migrationsUntil } from '../support/migrations.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';

/** A database of the test's own, and its findings after some statements. */
async function aDatabase(t: Test, { migrated = true } = {}) {
  const { url } = await testDatabase(t, { migrated });
  const name = new URL(url).pathname.slice(1);
  const alter = (what: string) =>
    withClient(url, (client) => client.query(`ALTER DATABASE ${name} ${what}`)).then(() => undefined);
  const findings = async (env: Record<string, string> = {}) =>
    byCheck(await checkDatabase(aConfig({ DATABASE_URL: url, ...env })));
  return { url, alter, findings };
}

test('a healthy database', async (t) => {
  const { alter, findings } = await aDatabase(t);
  for (const limit of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'])
    await alter(`SET ${limit} = '10s'`);
  const found = await findings();
  const checks = Object.keys(found).filter((check) => check !== 'database collation');
  t.strictSame(checks, [
    'database settings',
    'database',
    'database commits',
    'database standbys',
    'database timeouts',
    'database connections',
    'clock of the database',
    'migrations',
    'e-mail addresses',
    'factor keys',
    'passkeys',
    'purge',
    'seed',
    'settings of the installation',
    'used keys',
  ]);
  for (const [check, [finding]] of Object.entries(found)) t.equal(finding?.state, 'ok', check);
});

test('a collation of another version', async (t) => {
  const { url: server } = await testDatabase(t);
  const [{ version } = { version: 0 }] = await sql<{ version: number }>(
    server,
    `SELECT current_setting('server_version_num')::int AS version`,
  );
  if (version < 150_000) {
    t.notOk('database collation' in byCheck(await checkDatabase(aConfig({ DATABASE_URL: server }))));
    return;
  }
  const { url } = await testDatabase(t, { migrated: false, icu: true });
  await migrate(url);
  const finding = async () =>
    byCheck(await checkDatabase(aConfig({ DATABASE_URL: url })))['database collation'];
  t.match(await finding(), [{ state: 'ok', found: /^version \d/ }]);
  await sql(url, `UPDATE pg_database SET datcollversion = '1.2' WHERE datname = current_database()`);
  t.match(await finding(), [{ state: 'warn', found: /version 1\.2 .*no index/, todo: /REFRESH/ }]);
  await sql(url, `CREATE INDEX names ON users (name)`);
  t.match(await finding(), [{ state: 'fail', found: /may miss rows: names$/, todo: /^REINDEX/ }]);
});

test('settings and keys are compared with those of the replicas', async (t) => {
  const { url, findings } = await aDatabase(t);
  t.match(await findings(), {
    'settings of the installation': [
      { state: 'ok', found: /^ISSUER .*not recorded yet.*Each replica has to show/ },
    ],
    'used keys': [{ state: 'ok', found: 'no replica has signed lately' }],
  });
  await withClient(url, (client) =>
    client.query(`INSERT INTO installation VALUES ('ISSUER', 'https://a.example', now()), ('AUDIENCE', 'latchkey', now()),
      ('SESSION_MAX_AGE', '60', now());
      INSERT INTO signing_keys (kid, signed_at) VALUES ('theirs', now())`),
  );
  t.match(await findings({ ISSUER: 'https://a.example/' }), {
    'settings of the installation': [
      { state: 'fail', found: /^ISSUER: .*slash at the end.*does not serve/, todo: /settings accept/ },
      { state: 'warn', found: /^SESSION_MAX_AGE: it is 0 here and 60/ },
    ],
    'used keys': [{ state: 'fail', found: /^REFRESH_TOKEN_SECRET: the secret theirs is not here/ }],
  });
  t.match(await findings({ ISSUER: 'https://a.example', SESSION_MAX_AGE: '60' }), {
    'settings of the installation': [{ state: 'ok', found: /as recorded$/ }],
  });
});

test('before an upgrade, the settings and keys are shown over the schema of 1.0.0', async (t) => {
  const { url, findings } = await aDatabase(t, { migrated: false });
  await migrate(url, { folder: migrationsUntil(t, LAST_OF_FIRST) });
  await sql(url, `INSERT INTO signing_keys (kid, published_at, signed_at) VALUES ('theirs', now(), now())`);
  t.match(await findings({ ISSUER: 'https://a.example' }), {
    migrations: [{ state: 'fail', found: /are missing/ }],
    'settings of the installation': [
      { state: 'ok', found: /^ISSUER https:\/\/a\.example, .*not recorded yet/ },
    ],
    'used keys': [{ state: 'fail', found: /theirs/ }],
  });
});

test('timeouts that are off', async (t) => {
  const { findings } = await aDatabase(t);
  t.match(await findings(), {
    'database timeouts': [{ state: 'warn', found: /lock_timeout, statement_timeout/ }],
  });
});

test('settings that only an administrator can mend', async (t) => {
  const { alter, findings } = await aDatabase(t);
  await alter('SET default_transaction_read_only = on');
  t.match(await findings(), {
    'database settings': [
      { state: 'fail', found: /default_transaction_read_only = on/, todo: /ALTER ROLE .* IN DATABASE / },
    ],
  });
});

test('replicas x pool against the connection limit', async (t) => {
  const { alter, findings } = await aDatabase(t);
  const states = { 10: 'fail', 32: 'warn', 33: 'ok' };
  for (const [limit, state] of Object.entries(states)) {
    await alter(`CONNECTION LIMIT ${limit}`);
    const replicas = Math.floor(Number(limit) / 11);
    const found = new RegExp(`^${limit} connections allowed.*DATABASE_POOL 10,.* ${replicas} replicas`);
    t.match(await findings(), { 'database connections': [{ state, found }] });
  }
  t.match(await findings({ DATABASE_POOL: '1000' }), { 'database connections': [{ state: 'fail' }] });
});

test('missing and unfinished migrations', async (t) => {
  const bare = await aDatabase(t, { migrated: false });
  t.match(await bare.findings(), { migrations: [{ state: 'fail', found: /are missing, from \d+_init on/ }] });

  const { url, findings } = await aDatabase(t);
  await withClient(url, (client) =>
    client.query(`UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name LIKE '%_init'`),
  );
  t.match(await findings(), {
    migrations: [{ state: 'fail', found: /_init was started and is not finished/ }],
  });
});

/** A healthy server without standbys. */
const FACTS: PostgresFacts = {
  version: 140_000,
  isReadOnly: false,
  unsafe: [],
  unlimited: [],
  connections: 97,
  used: 1,
  synchronousNames: '',
  synchronousCommit: 'on',
  standbys: [],
  collation: null,
};

test('a version that is too old', (t) => {
  t.match(judgeServer({ ...FACTS, version: 130_011 }, 10), [
    { check: 'database', state: 'fail', found: /13\.11/ },
  ]);
  t.match(judgeServer(FACTS, 10), [{ check: 'database', state: 'ok' }]);
  t.end();
});

test('commits that are acknowledged before they are durable, and a server that is read-only', (t) => {
  t.match(byCheck(judgeServer({ ...FACTS, unsafe: ['fsync = off'] }, 10)), {
    'database commits': [{ state: 'fail', found: /^fsync = off:/ }],
  });
  t.match(byCheck(judgeServer({ ...FACTS, isReadOnly: true }, 10)), {
    database: [{ state: 'fail', found: /refuses writes/ }],
  });
  t.end();
});

// The fault suite asks real standbys (fault/postgres-failover.test.ts).
test('standbys', (t) => {
  const judge = (facts: Partial<PostgresFacts>) =>
    byCheck(judgeServer({ ...FACTS, ...facts }, 10))['database standbys'];
  const named = { synchronousNames: 'ANY 1 (north, south)' };

  t.match(judge({}), [{ state: 'ok', found: /^none is connected/ }]);
  t.match(judge({ standbys: ['async'] }), [{ state: 'warn', found: /^1 connected, none .*loses/ }]);
  t.match(judge({ standbys: [null, null] }), [{ state: 'warn', found: /^2 connected, none .*loses/ }]);
  t.match(judge({ ...named, standbys: ['quorum', 'quorum'] }), [
    { state: 'ok', found: /^2 connected, 2 of them synchronous/ },
  ]);
  t.match(judge({ ...named, standbys: ['sync', 'potential', 'async'] }), [
    { state: 'ok', found: /^3 connected, 1 of them synchronous/ },
  ]);
  t.match(judge({ ...named, standbys: [null] }), [{ state: 'warn', found: /cannot see which/ }]);
  for (const standbys of [[], ['async']])
    t.match(judge({ ...named, standbys }), [{ state: 'fail', found: /none of them synchronous, .*503/ }]);
  for (const synchronousCommit of ['local', 'off'])
    t.match(judge({ ...named, standbys: ['sync'], synchronousCommit }), [
      { state: 'warn', found: new RegExp(`^synchronous_commit = ${synchronousCommit}: .*loses`) },
    ]);
  t.match(judge({ ...named, standbys: ['sync'], synchronousCommit: 'remote_write' }), [{ state: 'ok' }]);
  t.equal(judge({ ...named, isReadOnly: true }), undefined, 'a standby is not asked about its own');
  t.end();
});

test('a database that is down, unknown or refuses the login; no password in the findings', async (t) => {
  const { url } = await testDatabase(t);
  const reasons = {
    'postgres://ada:sesame@127.0.0.1:1/none': /ECONNREFUSED/,
    [url.replace(/\/[^/]+$/, '/no_such_database')]: /does not exist/,
    [url.replace(/\/\/.*@/, '//no_such_role:sesame@')]: /no_such_role/,
  };
  for (const [DATABASE_URL, reason] of Object.entries(reasons)) {
    const found = await checkDatabase(aConfig({ DATABASE_URL }));
    t.match(found, [{ check: 'database', state: 'fail', found: reason }]);
    t.equal(found.length, 1);
    t.notMatch(JSON.stringify(found), /sesame/);
  }
});

test('clocks that differ', { skip: toolsMissing('faketime', 'env') }, async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const states = { 3: 'warn', 60: 'fail' };
  for (const [seconds, state] of Object.entries(states)) {
    for (const ahead of [Number(seconds), -Number(seconds)]) {
      const { findings } = await runDoctor({ DATABASE_URL, ...clockAhead(ahead) });
      const found = ahead > 0 ? /s behind ours/ : /s ahead of ours/;
      t.match(findings, { 'clock of the database': [{ state, found }] }, `ours ${ahead} s ahead`);
    }
  }
});

test('the embedded database is named, and not checked', async (t) => {
  t.match(await checkDatabase(aConfig({ DATA_DIR: '/var/lib/latchkey' })), [
    { state: 'warn', found: /embedded.*\/var\/lib\/latchkey/ },
  ]);
});
