import { randomUUID } from 'node:crypto';
import { chmodSync, chownSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { makeCertificates } from './certificates.ts';
import { start } from './embedded.ts';
import { testFolder } from './folder.ts';
import { ROOT } from './documents.ts';
import { withClient } from './postgres.ts';

/** A PostgreSQL that accepts only TLS, and the roles of docs/operating.md on it. */
export interface TlsPostgres {
  /** @param change of the URL with TLS. */
  url: (role: 'owner' | 'service', change?: (url: URL) => void) => string;
  ca: string;
  caFile: string;
  /** Statements as the superuser, in the database of the roles. */
  ask(...statements: string[]): Promise<void>;
}

/** The document's passwords are words that logs may hold. */
const PASSWORDS = { latchkey_owner: randomUUID(), latchkey: randomUUID() };

/** The statements of the `index`th SQL block of docs/operating.md. */
export function sqlOf(index: number): string[] {
  const text = readFileSync(join(ROOT, 'docs/operating.md'), 'utf8');
  const [, block = ''] = [...text.matchAll(/^```sql\n(.*?)^```$/gms)][index] ?? [];
  return block
    .replace('secret-of-the-owner', PASSWORDS.latchkey_owner)
    .replace("'secret'", `'${PASSWORDS.latchkey}'`)
    .split(/;\n/)
    .filter((statement) => statement.trim() !== '');
}

/**
 * Starts a server and runs the first two SQL blocks of docs/operating.md.
 * @param startServer starts a PostgreSQL in `folder`/postgres; returns the URL of the superuser `postgres`.
 */
export async function startTlsPostgres(
  t: Test,
  startServer: (t: Test, folder: string) => Promise<{ url: string }> = start,
): Promise<TlsPostgres> {
  const folder = testFolder(t);
  const server = await startServer(t, folder);
  const { certFile, keyFile, caFile, ca } = makeCertificates(folder, 'postgres');
  // The server may run as another user than the test, and reads its key only if that user owns it.
  chmodSync(folder, 0o755);
  const { uid, gid } = statSync(join(folder, 'postgres'));
  for (const file of [certFile, keyFile]) chownSync(file, uid, gid);
  chmodSync(keyFile, 0o600);
  const admin = onDatabase(server.url, 'postgres');
  await run(admin, [
    `ALTER SYSTEM SET ssl_cert_file = '${certFile}'`,
    `ALTER SYSTEM SET ssl_key_file = '${keyFile}'`,
    'ALTER SYSTEM SET ssl = on',
    'DROP DATABASE IF EXISTS latchkey',
    ...sqlOf(0),
  ]);
  const database = onDatabase(server.url, 'latchkey');
  await run(database, sqlOf(1));
  const rules = [
    'host all postgres 127.0.0.1/32 scram-sha-256',
    'hostssl all all 127.0.0.1/32 scram-sha-256',
  ];
  writeFileSync(join(folder, 'postgres/pg_hba.conf'), `${rules.join('\n')}\n`);
  await run(database, ['SELECT pg_reload_conf()']);

  return {
    ca,
    caFile,
    url(role, change = () => undefined) {
      const url = new URL(database);
      url.username = role === 'owner' ? 'latchkey_owner' : 'latchkey';
      url.password = PASSWORDS[url.username as keyof typeof PASSWORDS];
      url.search = 'sslmode=verify-full';
      change(url);
      return url.href;
    },
    ask: (...statements) => run(database, statements),
  };
}

async function run(url: string, statements: readonly string[]): Promise<void> {
  await withClient(url, async (client) => {
    for (const statement of statements) await client.query(statement);
  });
}

function onDatabase(url: string, name: string): string {
  const changed = new URL(url);
  changed.pathname = `/${name}`;
  return changed.href;
}
