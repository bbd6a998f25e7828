import { cpSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { migrationNames, shippedMigrations } from '../../src/infra/postgres/migration-files.ts';
import { testFolder } from './folder.ts';

/** The last one of 1.0.0. */
export const LAST_OF_FIRST = '20261126060000_user_enabled_at';

/** The migrations up to one of them, in a folder that a test may add to. */
export function migrationsUntil(t: Test, last: string): string {
  const folder = testFolder(t);
  for (const name of migrationNames(shippedMigrations()).filter((name) => name <= last))
    cpSync(join(shippedMigrations(), name), join(folder, name), { recursive: true });
  return folder;
}
