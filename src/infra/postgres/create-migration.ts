import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseTarget } from './migration-connection.ts';
import { MigrationError, reasonOf } from './migration-error.ts';
import { shippedMigrations } from './migration-files.ts';
import { migrate } from './migrate.ts';
import { everything, migrationList, schemaFiles, withSchemaEngine } from './schema-engine.ts';

type Options = { folder?: string };

/**
 * For developers: writes the migration which leads from the migrations so far to schema.prisma, and applies
 * it. Resolves to the new folder's name, or undefined if there is nothing to do.
 * Rejects with MigrationError if the database was changed by other means than migrations. Needs the right to
 * create databases: the migrations so far are replayed in a shadow database, dropped at the end.
 */
export async function createMigration(
  databaseUrl: string,
  name: string,
  options: Options = {},
): Promise<string | undefined> {
  const folder = options.folder ?? shippedMigrations();
  await migrate(databaseUrl, { folder });
  const created = await withSchemaEngine(parseTarget(databaseUrl), async (engine) => {
    const { action } = await engine.devDiagnostic({
      migrationsList: migrationList(folder),
      filters: everything,
    });
    if (action.tag === 'reset') {
      throw new MigrationError(`this database no longer follows from its migrations: ${action.reason}`);
    }
    return engine.createMigration({
      draft: false,
      migrationName: name,
      migrationsList: migrationList(folder),
      schema: { files: schemaFiles() },
      filters: everything,
    });
  }).catch(clearly);
  if (created.migrationScript === null) return undefined;
  const path = join(folder, created.generatedMigrationName);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'migration.sql'), created.migrationScript);
  await migrate(databaseUrl, { folder });
  return created.generatedMigrationName;
}

/**
 * The SQL which would lead from the migrations to schema.prisma; '' if they say the same.
 * Needs the right to create databases, like createMigration. Rejects with MigrationError.
 */
export async function driftScript(databaseUrl: string, options: Options = {}): Promise<string> {
  const folder = options.folder ?? shippedMigrations();
  const { exitCode, stdout } = await withSchemaEngine(parseTarget(databaseUrl), (engine) =>
    engine.diff({
      from: { tag: 'migrations', ...migrationList(folder) },
      to: { tag: 'schemaDatamodel', files: schemaFiles() },
      script: true,
      exitCode: true,
      filters: everything,
    }),
  ).catch(clearly);
  return exitCode === 0 ? '' : (stdout ?? '');
}

function clearly(error: unknown): never {
  if (error instanceof MigrationError) throw error;
  throw new MigrationError(`the schema engine refused: ${reasonOf(error)}`);
}
