import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { Test } from 'tap';
import { startEmbeddedPostgres } from '../../src/infra/embedded/postgres.ts';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { readMigrations, shippedMigrations } from '../../src/infra/postgres/migration-files.ts';

/** The default server, unless TEST_DATABASE_URL names another. */
export const USUAL_SERVER = 'postgres://postgres@127.0.0.1:5432/postgres';

type Options = {
  migrated?: boolean;
  /** Of a database that is not migrated, instead of the server's own. */
  encoding?: string;
  /** A database that is not migrated, whose texts a library orders. From PostgreSQL 15 on. */
  icu?: boolean;
};

/**
 * A new PostgreSQL database, dropped at the test's teardown; migrated by default.
 * Its server is the one of TEST_DATABASE_URL, or one at this machine's usual port, or else an embedded server that this
 * process starts. Other databases on that server are left alone.
 */
export async function testDatabase(t: Test, options: Options = {}): Promise<{ url: string }> {
  const server = await (serverUrl ??= findServer());
  const { url, drop } = await scratchDatabase(server, { migrated: true, ...options });
  t.teardown(drop);
  return { url };
}

/** A database on `server` that exists until it is dropped; empty by default. */
export async function scratchDatabase(
  server: string,
  { migrated = false, encoding, icu = false }: Options = {},
): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `lk_test_${randomBytes(8).toString('hex')}`;
  await administer(server, async (admin) => {
    const source = migrated ? `TEMPLATE ${await template(admin, server)}` : '';
    const own = encoding ? await inEncoding(admin, encoding) : icu && IN_ICU;
    await admin.query(`CREATE DATABASE ${name} ${own || source}`);
  });
  const drop = () =>
    administer(server, (admin) => admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  return { url: onServer(server, name), drop };
}

const IN_ICU = `TEMPLATE template0 ENCODING UTF8 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'`;

/** The C locale of libc allows every encoding. PostgreSQL 14 has no other provider of locales. */
async function inEncoding(admin: pg.Client, encoding: string): Promise<string> {
  const { rows } = await admin.query("SELECT current_setting('server_version_num')::int >= 150000 AS choice");
  const [{ choice }] = rows as [{ choice: boolean }];
  const locale = `LC_COLLATE 'C' LC_CTYPE 'C'${choice ? ' LOCALE_PROVIDER libc' : ''}`;
  return `TEMPLATE template0 ENCODING '${encoding}' ${locale}`;
}

/** Runs `use` with a connection to `url`. */
export async function withClient<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

let serverUrl: Promise<string> | undefined;

async function findServer(): Promise<string> {
  const given = process.env.TEST_DATABASE_URL ?? USUAL_SERVER;
  if (await answers(given)) return given;
  const server = await startTestServer();
  // Imported only here: the import makes the process a test with a time limit, and the bench is none.
  const { default: tap } = await import('tap');
  tap.teardown(server.stop);
  return server.url;
}

/** Whether the server accepts a connection within a second and lets us create databases. */
export async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rowCount } = await client.query(
      'SELECT 1 FROM pg_roles WHERE rolname = current_user AND (rolcreatedb OR rolsuper)',
    );
    return rowCount === 1;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** An embedded server in a temporary folder. `npm test` starts one for all files; a single file starts its own. */
export async function startTestServer(): Promise<{ url: string; stop: () => Promise<void> }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'lk-test-'));
  const quiet = () => undefined;
  const server = await startEmbeddedPostgres({ dataDir, log: { debug: quiet, warn: quiet } });
  const stop = async () => {
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  };
  return { url: server.url, stop };
}

/** An arbitrary number that no other advisory lock uses. */
const templateLock = 4_117_200_901;

/** The database to copy, migrated once for each state of prisma/migrations and kept for later runs. */
async function template(admin: pg.Client, server: string): Promise<string> {
  const migrations = JSON.stringify(readMigrations(shippedMigrations()));
  const name = `lk_template_${createHash('sha256').update(migrations).digest('hex').slice(0, 16)}`;
  await admin.query('SELECT pg_advisory_lock($1)', [templateLock]);
  try {
    const { rows } = await admin.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
    if (rows.length > 0) return name;
    // Renamed only when complete, because a test run may be interrupted.
    const draft = `${name}_draft`;
    await admin.query(`DROP DATABASE IF EXISTS ${draft} WITH (FORCE)`);
    await admin.query(`CREATE DATABASE ${draft}`);
    await migrate(onServer(server, draft));
    await admin.query(`ALTER DATABASE ${draft} RENAME TO ${name}`);
    return name;
  } finally {
    await admin.query('SELECT pg_advisory_unlock($1)', [templateLock]);
  }
}

async function administer(server: string, use: (admin: pg.Client) => Promise<unknown>): Promise<void> {
  await withClient(server, use);
}

function onServer(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}
