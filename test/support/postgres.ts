import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { Test } from 'tap';
import { startEmbeddedPostgres } from '../../src/infra/embedded/postgres.ts';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { readMigrations, shippedMigrations } from '../../src/infra/postgres/migration-files.ts';

type Options = { migrated?: boolean };

/**
 * A PostgreSQL database of the test's own, dropped at its teardown; migrated unless told otherwise.
 * It lies on the server of TEST_DATABASE_URL, or on one at the usual port of this machine, or else on an
 * embedded server which this process starts. That server's other databases are left alone.
 */
export async function testDatabase(t: Test, { migrated = true }: Options = {}): Promise<{ url: string }> {
  const server = await (serverUrl ??= findServer());
  const name = `lk_test_${randomBytes(8).toString('hex')}`;
  await administer(server, async (admin) => {
    const source = migrated ? ` TEMPLATE ${await template(admin, server)}` : '';
    await admin.query(`CREATE DATABASE ${name}${source}`);
  });
  t.teardown(() =>
    administer(server, (admin) => admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
  );
  return { url: onServer(server, name) };
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
  const given = process.env.TEST_DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';
  return (await answers(given)) ? given : embeddedServer();
}

/** Whether the server lets us in within a second, and create databases. */
async function answers(url: string): Promise<boolean> {
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

async function embeddedServer(): Promise<string> {
  const dataDir = mkdtempSync(join(tmpdir(), 'lk-test-'));
  const quiet = () => undefined;
  const server = await startEmbeddedPostgres({ dataDir, log: { debug: quiet, warn: quiet } });
  // Imported only here: importing it makes the process a test with a time limit, which the bench is not.
  const { default: tap } = await import('tap');
  tap.teardown(async () => {
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return server.url;
}

/** Any number that nobody else uses. */
const templateLock = 4_117_200_901;

/** The database to copy, migrated once for each state of prisma/migrations and kept for later runs. */
async function template(admin: pg.Client, server: string): Promise<string> {
  const migrations = JSON.stringify(readMigrations(shippedMigrations()));
  const name = `lk_template_${createHash('sha256').update(migrations).digest('hex').slice(0, 16)}`;
  await admin.query('SELECT pg_advisory_lock($1)', [templateLock]);
  try {
    const { rows } = await admin.query('SELECT 1 FROM pg_database WHERE datname = $1', [name]);
    if (rows.length > 0) return name;
    // Named only when done, since a test run may be cut off.
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
