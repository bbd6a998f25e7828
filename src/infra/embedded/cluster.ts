import { randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  lchownSync,
  mkdirSync,
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
import { giveTo, initdbAccount, type Account } from './server-account.ts';
import type { Binaries } from './binaries.ts';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';
import { stopLeftovers } from './leftovers.ts';
import { runProgram } from './run-program.ts';

/** PostgreSQL's data and the password of its superuser `postgres`. */
export type Cluster = { folder: string; password: string };

/**
 * The `-D` argument of PostgreSQL's programs.
 * The account may lack access to the folders above (for example /root). But Node sets the child's working directory
 * while the child is still root, and on Linux a relative path works from there.
 */
export function dataArgument(folder: string, account: Account): string {
  return account && process.platform === 'linux' ? '/proc/self/cwd' : folder;
}

/**
 * Opens the cluster in `dataDir`, or creates one. The caller must hold the data folder's lock.
 * Rejects with EmbeddedDatabaseError if the cluster belongs to another user or PostgreSQL version, or if its password
 * file is missing.
 */
export async function openCluster(dataDir: string, binaries: Binaries, account: Account): Promise<Cluster> {
  const folder = join(dataDir, 'postgres');
  const passwordFile = join(dataDir, 'postgres.password');
  await removeDrafts(dataDir);
  if (!existsSync(folder)) await create(dataDir, folder, passwordFile, binaries, account);
  checkVersion(folder, binaries);
  takeOver(dataDir, folder, account);
  if (!existsSync(passwordFile)) {
    throw new EmbeddedDatabaseError(
      `the password of the database in ${folder} is missing: restore ${passwordFile}, or remove both to start empty`,
    );
  }
  return { folder, password: readFileSync(passwordFile, 'utf8').trim() };
}

/** Creates the cluster as a draft and renames it at the end, so that a killed start leaves no half-made cluster. */
async function create(
  dataDir: string,
  folder: string,
  passwordFile: string,
  binaries: Binaries,
  account: Account,
): Promise<void> {
  const draft = mkdtempSync(join(dataDir, 'postgres.new-'));
  // In a folder that only we may enter, other processes of initdb's user cannot reach it. Elsewhere than on Linux,
  // initdb could not either (see dataArgument).
  const data = join(draft, 'data');
  const creator = initdbAccount(account);
  mkdirSync(data, { mode: 0o700 });
  for (const path of process.platform === 'linux' ? [data] : [draft, data])
    if (creator) lchownSync(path, creator.uid, creator.gid);
  const password = randomBytes(24).toString('base64url');
  writeFileSync(passwordFile, `${password}\n`, { mode: 0o600 });
  await initdb(data, passwordFile, binaries, creator);
  // The only access is over 127.0.0.1 with the password.
  writeFileSync(join(data, 'pg_hba.conf'), 'host all all 127.0.0.1/32 scram-sha-256\n');
  if (account && creator !== account) giveTo(data, account);
  renameSync(data, folder);
  rmSync(draft, { recursive: true, force: true });
}

async function initdb(
  data: string,
  passwordFile: string,
  binaries: Binaries,
  account: Account,
): Promise<void> {
  const windows = process.platform === 'win32';
  // The account cannot read the password file, so initdb inherits an open file descriptor.
  const handed = `${data}.password`;
  writeFileSync(handed, readFileSync(passwordFile), { mode: 0o600, flag: 'wx' });
  if (account) lchownSync(handed, account.uid, account.gid);
  const stdin = openSync(handed, 'r');
  try {
    const { ok, output } = await runProgram(
      binaries.initdb,
      [
        '-D',
        dataArgument(data, account),
        '-U',
        'postgres',
        '--auth=scram-sha-256',
        `--pwfile=${windows ? handed : '/dev/stdin'}`,
        // PostgreSQL's own C.UTF-8 is the same on every system; a system locale is not.
        '--encoding=UTF8',
        '--locale=C',
        '--locale-provider=builtin',
        '--builtin-locale=C.UTF-8',
      ],
      { cwd: data, account, stdin },
    );
    if (!ok) throw new EmbeddedDatabaseError(`initdb failed in ${data}: ${output}`);
  } finally {
    closeSync(stdin);
    rmSync(handed, { force: true });
  }
}

async function removeDrafts(dataDir: string): Promise<void> {
  for (const name of readdirSync(dataDir).filter((entry) => entry.startsWith('postgres.new-'))) {
    const path = join(dataDir, name);
    // The killed start's initdb may still run there.
    const data = join(path, 'data');
    if (existsSync(data)) await stopLeftovers(data);
    rmSync(path, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Root gives the server's account what an earlier version ran as another user, in a folder that only root changes.
 * Elsewhere the cluster may be anybody's.
 */
function takeOver(dataDir: string, folder: string, account: Account): void {
  const { uid: holder, mode } = statSync(dataDir);
  if (account && holder === 0 && (mode & 0o022) === 0) {
    giveTo(folder, account);
    return;
  }
  const us = account?.uid ?? process.getuid?.();
  const { uid } = statSync(folder);
  if (us === undefined || uid === us) return;
  const todo = account ? `run \`chown -R ${account.uid} ${folder}\`` : 'start as that user or root';
  throw new EmbeddedDatabaseError(
    `${folder} belongs to another user (uid ${uid}): ${todo}, or set DATABASE_URL or another DATA_DIR`,
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
