import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import {
  migrationNames,
  readMigrations,
  shippedMigrations,
} from '../../src/infra/postgres/migration-files.ts';
import { schemaDifference } from './schema-engine.ts';

/** The message tells the developer what to do. */
export class CreateMigrationError extends Error {
  override name = 'CreateMigrationError';
}

/** A statement that waits for a table holds up all later ones on it. CONCURRENTLY waits too, but holds nothing up. */
const LIMIT = "SET LOCAL lock_timeout = '2s';\n\n";

/** What a file does that docs/migrations.md forbids; empty if nothing. */
export function faultsOf(sql: string): string[] {
  const statements = sql
    .replaceAll(/\$(\w*)\$[^]*?\$\1\$/g, '')
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/'(?:[^']|'')*'/g, "''")
    .split(';')
    .map((statement) => statement.trim().toUpperCase());
  const created = statements.map(
    (statement) => /^CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)/.exec(statement)?.[1],
  );
  const waiting = statements.some(
    (statement) =>
      !/^\w+(?: UNIQUE)? INDEX CONCURRENTLY\b/.test(statement) &&
      (/^(ALTER|DROP|ANALYZE|LOCK|REINDEX)\b/.test(statement) ||
        (statement.startsWith('CREATE') &&
          [...statement.matchAll(/\b(?:ON(?! (?:DELETE|UPDATE)\b)|REFERENCES)\s+"?(\w+)/g)].some(
            ([, table]) => !created.includes(table),
          ))),
  );
  const starting = (pattern: RegExp) => statements.some((statement) => pattern.test(statement));
  return [
    ...(waiting && !statements[0]?.startsWith('SET LOCAL LOCK_TIMEOUT')
      ? [`waits for a table that is in use, and does not begin with ${LIMIT.trim()}`]
      : []),
    ...(starting(/^(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|DO|WITH)\b/)
      ? [
          'changes rows, and keeps all of them locked until its end: change them in pages (src/infra/postgres/migrate.ts)',
        ]
      : []),
    ...(starting(/^(BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT)\b/)
      ? ['ends the transaction that it shares with its record']
      : []),
    ...(statements.filter(Boolean).length > 1 && starting(/^(CREATE|DROP|REINDEX)\b.* CONCURRENTLY\b/)
      ? ['has more than one statement beside CONCURRENTLY']
      : []),
  ];
}

interface Options {
  folder?: string;
  now?: Date;
}

/**
 * Writes the migration that leads from the migrations in `folder` to schema.prisma.
 * @param databaseUrl an empty database, which the migrations in `folder` are applied to
 * @returns the new folder's name; undefined if there is no difference
 * @throws CreateMigrationError, also for a fault of one that is there; MigrationError
 */
export async function createMigration(
  databaseUrl: string,
  name: string,
  { folder = shippedMigrations(), now = new Date() }: Options = {},
): Promise<string | undefined> {
  if (!/^[a-z][a-z0-9_]*$/.test(name)) {
    throw new CreateMigrationError(`the name has to be of a-z, 0-9 and _, such as add_index: ${name}`);
  }
  for (const { name: earlier, sql = '' } of readMigrations(folder))
    for (const fault of faultsOf(sql)) throw new CreateMigrationError(`the migration ${earlier} ${fault}`);
  const created = `${stampAfter(migrationNames(folder).at(-1), now)}_${name}`;
  await migrate(databaseUrl, { folder });
  const sql = await schemaDifference(databaseUrl);
  if (sql === '') return undefined;
  mkdirSync(join(folder, created));
  writeFileSync(join(folder, created, 'migration.sql'), faultsOf(sql).length > 0 ? LIMIT + sql : sql);
  return created;
}

/** UTC, in seconds. Migrations are applied in the order of their names, so the new one's is later than the newest. */
function stampAfter(newest = '', now: Date): string {
  const stamp = (date: Date) => date.toISOString().replace(/\D/g, '').slice(0, 14);
  const [, iso = ''] = /^(\d{14})_/.exec(newest) ?? [];
  const [year, month, day, hours, minutes, seconds] = iso.match(/^\d{4}|\d\d/g) ?? [];
  const next = new Date(`${year}-${month}-${day}T${hours}:${minutes}:${seconds}Z`).getTime() + 1000;
  return stamp(new Date(Math.max(now.getTime(), next || 0)));
}
