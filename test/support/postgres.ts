import { randomBytes } from 'node:crypto';
import pg from 'pg';
import type { Test } from 'tap';
import { migrate } from '../../src/infra/postgres/migrate.ts';

const server = process.env.TEST_DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres';

/** A database of its own for one test. */
export async function testDatabase(t: Test, { migrated = true } = {}): Promise<{ url: string }> {
  const name = `lk_test_${randomBytes(6).toString('hex')}`;
  await run(`CREATE DATABASE ${name}`);
  t.teardown(() => run(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  if (migrated) await migrate(url.href);
  return { url: url.href };
}

async function run(sql: string): Promise<void> {
  const client = new pg.Client(server);
  await client.connect();
  await client.query(sql);
  await client.end();
}
