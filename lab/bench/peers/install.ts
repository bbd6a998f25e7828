import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = new URL('../../../../', import.meta.url).pathname;
const SOURCE = join(ROOT, 'lab/bench/peers');
/** Git, the linters and the search for tests leave this folder out. */
const FOLDER = join(ROOT, 'dist/bench-peers');
const STAMP = join(FOLDER, 'node_modules/.installed');

/** The peers' packages in a folder of their own, with the scripts that start them. */
export interface InstalledPeers {
  script(name: string): string;
  versionOf(packageName: string): string;
}

/**
 * Installs the packages of lab/bench/peers/package.json unless they are.
 * @throws Error if npm fails.
 */
export function installPeers(): InstalledPeers {
  mkdirSync(FOLDER, { recursive: true });
  const files = readdirSync(SOURCE).filter((name) => /\.mjs$|^package(-lock)?\.json$|^\.npmrc$/.test(name));
  for (const name of files) cpSync(join(SOURCE, name), join(FOLDER, name));
  const digest = createHash('sha256')
    .update(readFileSync(join(FOLDER, 'package-lock.json')))
    .digest('hex');
  if (!existsSync(STAMP) || readFileSync(STAMP, 'utf8') !== digest) {
    process.stderr.write('installing the peers of lab/bench/peers/package.json\n');
    npmCi();
    writeFileSync(STAMP, digest);
  }
  return {
    script: (name) => join(FOLDER, name),
    versionOf(packageName) {
      const manifest = readFileSync(join(FOLDER, 'node_modules', packageName, 'package.json'), 'utf8');
      return (JSON.parse(manifest) as { version: string }).version;
    },
  };
}

function npmCi(): void {
  const { status, stdout, stderr, error } = spawnSync('npm', ['ci', '--no-audit', '--no-fund'], {
    cwd: FOLDER,
    encoding: 'utf8',
  });
  if (status === 0) return;
  throw new Error(
    `the peers cannot be installed: \`npm ci\` failed in ${FOLDER}. It needs npm and its registry:\n${
      error?.message ?? `${stdout}${stderr}`
    }`,
  );
}
