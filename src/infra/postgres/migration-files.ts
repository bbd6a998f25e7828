import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** One folder of prisma/migrations. `sql` is undefined when its migration.sql is missing. */
export type MigrationFile = { name: string; sql: string | undefined };

/** The package's folder: src/ and dist/src/ lie at different depths, so it is looked for, not counted. */
export function packageRoot(from: string = import.meta.url): string {
  let folder = dirname(fileURLToPath(from));
  while (!existsSync(join(folder, 'package.json')) || !existsSync(join(folder, 'prisma'))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error('the folder prisma/ is missing: it belongs beside dist/');
    folder = parent;
  }
  return folder;
}

/** The folder with the migrations that this build ships. */
export function shippedMigrations(): string {
  return join(packageRoot(), 'prisma/migrations');
}

/** The text of schema.prisma. */
export function readSchema(): string {
  return readFileSync(join(packageRoot(), 'prisma/schema.prisma'), 'utf8');
}

/** Names of the migrations in `folder`, in the order in which they are applied. */
export function migrationNames(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
}

/** The migrations in `folder` with their SQL, in the order in which they are applied. */
export function readMigrations(folder: string): MigrationFile[] {
  return migrationNames(folder).map((name) => ({
    name,
    sql: readIfThere(join(folder, name, 'migration.sql')),
  }));
}

/** The text of a file, or undefined if there is none. */
export function readIfThere(path: string): string | undefined {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
}
