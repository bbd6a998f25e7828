import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  lchownSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Account } from './account.ts';
import type { Binaries } from './binaries.ts';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';
import { stopLeftovers } from './leftovers.ts';
import { runProgram } from './run-program.ts';

/** PostgreSQL's data and the password of its superuser `postgres`. */
export type Cluster = { folder: string; password: string };

/**
 * How PostgreSQL's programs are told of the folder they work in.
 * Another user than us may not enter the folders above it (say, /root is closed to others). But the child's
 * working directory is set while it is still root, and Linux lets it go on from there by this name.
 */
export function dataArgument(folder: string, account: Account): string {
  return account && process.platform === 'linux' ? '/proc/self/cwd' : folder;
}

/**
 * Opens the cluster in `dataDir`, made anew if there is none. Only for the holder of the data folder's lock.
 * Rejects with EmbeddedDatabaseError if it belongs to somebody else, another version, or lost its password.
 */
export async function openCluster(dataDir: string, binaries: Binaries, account: Account): Promise<Cluster> {
  const folder = join(dataDir, 'postgres');
  const passwordFile = join(dataDir, 'postgres.password');
  await removeDrafts(dataDir);
  if (!existsSync(folder)) await create(dataDir, folder, passwordFile, binaries, account);
  checkOwner(folder, account);
  checkVersion(folder, binaries);
  if (!existsSync(passwordFile)) {
    throw new EmbeddedDatabaseError(
      `the password of the database in ${folder} is gone: put ${passwordFile} back, or remove both to start empty`,
    );
  }
  return { folder, password: readFileSync(passwordFile, 'utf8').trim() };
}

/** A cluster counts once it has its name; whatever a killed start left unfinished has not. */
async function create(
  dataDir: string,
  folder: string,
  passwordFile: string,
  binaries: Binaries,
  account: Account,
): Promise<void> {
  const draft = mkdtempSync(join(dataDir, 'postgres.new-'));
  if (account) lchownSync(draft, account.uid, account.gid);
  const password = randomBytes(24).toString('base64url');
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  await initdb(draft, passwordFile, binaries, account);
  // The only way in is over 127.0.0.1 with the password.
  writeFileSync(join(draft, 'pg_hba.conf'), 'host all all 127.0.0.1/32 scram-sha-256\n');
  renameSync(draft, folder);
}

async function initdb(
  draft: string,
  passwordFile: string,
  binaries: Binaries,
  account: Account,
): Promise<void> {
  const windows = process.platform === 'win32';
  // The account may neither reach nor read the password's file, but it inherits an open one of its own.
  const handed = `${draft}.password`;
  writeFileSync(handed, readFileSync(passwordFile), { mode: 0o600, flag: 'wx' });
  if (account) lchownSync(handed, account.uid, account.gid);
  const stdin = openSync(handed, 'r');
  try {
    const { ok, output } = await runProgram(
      binaries.initdb,
      [
        ...['-D', dataArgument(draft, account), '-U', 'postgres'],
        ...['--auth=scram-sha-256', `--pwfile=${windows ? handed : '/dev/stdin'}`],
        // PostgreSQL's own C.UTF-8, the same on every system, rather than the system's.
        ...['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
      ],
      { cwd: draft, account, stdin },
    );
    if (!ok) throw new EmbeddedDatabaseError(`initdb failed in ${draft}: ${output}`);
  } finally {
    closeSync(stdin);
    rmSync(handed, { force: true });
  }
}

async function removeDrafts(dataDir: string): Promise<void> {
  for (const name of readdirSync(dataDir).filter((entry) => entry.startsWith('postgres.new-'))) {
    const path = join(dataDir, name);
    // The killed start's initdb may still be at work in it.
    if (statSync(path).isDirectory()) await stopLeftovers(path);
    rmSync(path, { recursive: true, force: true, maxRetries: 5 });
  }
}

function checkOwner(folder: string, account: Account): void {
  const us = account?.uid ?? process.getuid?.();
  const { uid } = statSync(folder);
  if (us === undefined || uid === us) return;
  throw new EmbeddedDatabaseError(
    `${folder} belongs to another user (uid ${uid}): start as that user or root, or set DATABASE_URL or another DATA_DIR`,
  );
}

function checkVersion(folder: string, { major }: Binaries): void {
  const file = join(folder, 'PG_VERSION');
  const found = existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined;
  if (found === major) return;
  const what = found === undefined ? 'is not a PostgreSQL database' : `is a database of PostgreSQL ${found}`;
  throw new EmbeddedDatabaseError(
    `${folder} ${what}, but PostgreSQL ${major} wants to use it: set DATABASE_URL or another DATA_DIR`,
  );
}
