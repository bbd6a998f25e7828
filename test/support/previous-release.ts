import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { migrationNames, packageRoot, shippedMigrations } from '../../src/infra/postgres/migration-files.ts';
import { testFolder } from './folder.ts';
import { bareEnvironment, skipReason } from './environment.ts';
import { toolsMissing } from './tools.ts';

/** The release that runs when this version is rolled out, and the paths of its built programs. */
export interface Release {
  /** A tag, or a commit. */
  name: string;
  server: string;
  cli: string;
}

const ROOT = packageRoot();

/** Why it cannot be built here, or false. */
export const previousReleaseMissing: false | string =
  toolsMissing('git') ||
  skipReason(
    previousReleaseName() === null
      ? 'the git history does not reach back to the previous release (git fetch --unshallow --tags)'
      : null,
  );

/**
 * The newest tag before this commit. Without a tag, the commit before the newest migration, but not before the first
 * one. If that migration is not committed yet, this commit.
 */
function previousReleaseName(): string | null {
  const tags = git(
    'tag',
    '--list',
    'v*',
    '--sort=-version:refname',
    '--merged',
    'HEAD',
    '--no-contains',
    'HEAD',
  );
  if (tags === null) return null;
  const [newest] = tags.split('\n');
  if (newest) return newest;
  const names = migrationNames(shippedMigrations());
  const migration = join('prisma/migrations', names.at(-1) ?? '');
  const added = git('log', '-1', '--diff-filter=A', '--format=%H', '--', migration);
  const before = names.length === 1 ? added : `${added ?? ''}^`;
  return git('rev-parse', '--verify', '--quiet', added ? (before ?? '') : 'HEAD');
}

/** Builds it in a new folder, with the packages of this version: they need no network. */
export function buildPreviousRelease(t: Test): Release {
  const name = previousReleaseName() ?? '';
  const folder = testFolder(t);
  // With a separate index: the repository's index is not touched.
  const env = { GIT_INDEX_FILE: join(folder, 'index') };
  done(gitWith(env, 'read-tree', name));
  done(gitWith(env, 'checkout-index', '--all', `--prefix=${folder}/`));
  rmSync(join(folder, 'test'), { recursive: true, force: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const build = [join(folder, 'scripts/build.mjs')];
  done(spawnSync(process.execPath, build, { env: bareEnvironment({}), encoding: 'utf8' }));
  return { name, server: join(folder, 'dist/src/server.js'), cli: join(folder, 'dist/src/cli.js') };
}

/** @returns the output, or null if the command failed. */
function git(...args: string[]): string | null {
  const { status, stdout } = gitWith({}, ...args);
  return status === 0 ? stdout.trim() : null;
}

function gitWith(env: Environment, ...args: string[]): SpawnSyncReturns<string> {
  return spawnSync('git', ['-C', ROOT, ...args], { env: bareEnvironment(env), encoding: 'utf8' });
}

function done({ status, stdout, stderr }: SpawnSyncReturns<string>): void {
  if (status !== 0) throw new Error(`the previous release cannot be built:\n${stdout}${stderr}`);
}
