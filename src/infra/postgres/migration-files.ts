import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** One folder of prisma/migrations. `sql` is undefined if migration.sql is missing. */
export type MigrationFile = { name: string; sql: string | undefined };

/** Searches upwards for the package's folder, because src/ and dist/src/ are at different depths. */
export function packageRoot(from: string = import.meta.url): string {
  let folder = dirname(fileURLToPath(from));
  while (!existsSync(join(folder, 'package.json')) || !existsSync(join(folder, 'prisma'))) {
    const parent = dirname(folder);
    if (parent === folder) throw new Error('the folder prisma/ is missing: put it beside dist/');
    folder = parent;
  }
  return folder;
}

/** The folder with the migrations that this build ships. */
export function shippedMigrations(): string {
  return join(packageRoot(), 'prisma/migrations');
}

/** Names of the migrations in `folder`, in the order of application. */
export function migrationNames(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => entry.name)
    .sort();
}

/** The migrations in `folder` with their SQL, in the order of application. */
export function readMigrations(folder: string): MigrationFile[] {
  return migrationNames(folder).map((name) => {
    const file = join(folder, name, 'migration.sql');
    return { name, sql: existsSync(file) ? readFileSync(file, 'utf8') : undefined };
  });
}
