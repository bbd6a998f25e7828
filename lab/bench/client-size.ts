/**
 * `npm run bench:client`: how many bytes @latchkey/client adds to a page, beside other products' client libraries.
 * Installs them and our packed archive from the npm registry into a temporary folder, and bundles all exports of each
 * with esbuild. `--json`: one line of JSON. `--save` writes the table into docs/performance.md.
 */
import { build } from 'esbuild';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { gzipSync } from 'node:zlib';
import { print, reportText, save, type Table } from '../table.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const COMMAND = 'npm run bench:client -- --save';
const OWN = '@latchkey/client';

/** The packages, pinned, with the module that a page imports. */
const OTHERS = {
  '@supabase/auth-js': { version: '2.119.1', entry: '@supabase/auth-js' },
  '@auth0/auth0-spa-js': { version: '2.28.3', entry: '@auth0/auth0-spa-js' },
  'oidc-client-ts': { version: '3.5.0', entry: 'oidc-client-ts' },
  'supertokens-website': { version: '20.1.6', entry: 'supertokens-website' },
  'better-auth': { version: '1.7.25', entry: 'better-auth/client' },
};

const { values: flags } = parseArgs({
  options: { json: { type: 'boolean', default: false }, save: { type: 'boolean', default: false } },
});
const folder = mkdtempSync(join(tmpdir(), 'latchkey-client-size-'));
try {
  const sizes = await measure();
  await print(flags.json, sizes, textOf(sizes));
  if (flags.save) await save({ [COMMAND]: textOf(sizes) });
} finally {
  rmSync(folder, { recursive: true });
}

async function measure() {
  npm(ROOT, 'pack', '--workspace', OWN, '--pack-destination', folder);
  const archive = readdirSync(folder).find((name) => name.endsWith('.tgz')) ?? '';
  const others = Object.entries(OTHERS).map(([name, { version }]) => [name, version] as const);
  const dependencies = Object.fromEntries([[OWN, `file:${archive}`] as const, ...others]);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }));
  copyFileSync(join(ROOT, '.npmrc'), join(folder, '.npmrc'));
  npm(folder, 'install', '--no-audit', '--no-fund');
  const own = { entry: OWN, version: /(\d.*)\.tgz$/.exec(archive)?.[1] ?? '' };
  return Promise.all(
    [own, ...Object.values(OTHERS)].map(async ({ entry, version }) => ({
      entry,
      version,
      ...(await sizeOf(entry)),
    })),
  );
}

function npm(cwd: string, ...args: string[]): void {
  const { status, stdout, stderr } = spawnSync('npm', [...args, '--silent'], { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm ${args[0]} failed in ${cwd}: ${stdout}${stderr}`);
}

/** Bytes of everything that the module exports, with what it imports. */
async function sizeOf(entry: string): Promise<{ minified: number; gzipped: number }> {
  const { outputFiles } = await build({
    stdin: { contents: `export * from '${entry}';`, resolveDir: folder },
    bundle: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    write: false,
    logLevel: 'error',
  });
  const contents = Buffer.concat(outputFiles.map((file) => file.contents));
  return { minified: contents.length, gzipped: gzipSync(contents, { level: 9 }).length };
}

type Sizes = Awaited<ReturnType<typeof measure>>;

function textOf(sizes: Sizes): string {
  const own = sizes[0]?.gzipped ?? NaN;
  const table: Table = {
    title: 'Bytes of a client library, all of its exports',
    head: ['library', 'version', 'minified', 'and gzipped', 'times ours'],
    rows: sizes.map(({ entry, version, minified, gzipped }) => [
      `\`${entry}\``,
      version,
      minified,
      gzipped,
      (gzipped / own).toFixed(1),
    ]),
  };
  return reportText([table], [], 'Bundled by esbuild, gzipped at level 9.');
}
