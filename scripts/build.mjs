// Builds dist/: the Prisma client, TypeScript, what tsc does not copy (the Lua scripts and the breached passwords), and
// the revision: that of git, or the environment's REVISION where there is no repository. Each step is skipped if its
// inputs have not changed since the last build and its output exists.
//
// Without a flag it builds and type-checks everything: src, the tests and packages/*/dist, which other services install.
// `--service` builds what `npm start` runs, and checks no types; so does a build without development dependencies, which
// lacks some of the types. `--packages` builds only the packages, for `npm pack`; `--lab` adds the laboratory.
// It says on standard error that it builds, and on a terminal which tool runs and for how long.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { clearInterval, setInterval } from 'node:timers';

const root = new URL('..', import.meta.url).pathname;
/** Folders that the compiled code reads as they are. */
const COPIED = ['src/infra/redis/lua', 'src/infra/crypto/breached-passwords'];
/** The packages for other services. A later one imports the earlier ones. */
const PACKAGED = ['packages/verifier', 'packages/agent', 'packages/client', 'packages/load'];
/** What every compilation reads besides its sources. */
const SHARED = ['package-lock.json', 'tsconfig.json'];

const given = ['--service', '--packages', '--lab'].filter((flag) => process.argv.includes(flag));
const isEverything = !given.includes('--service') && !given.includes('--packages');
let isAnnounced = false;

if (isEverything || given.includes('--service')) await generateClient();
// Before the tests, which import them.
if (given.includes('--packages') || (isEverything && hasDevelopmentDependencies())) await buildPackages();
// Before the complete compilation, which writes the same files below dist/src: only this step knows which sources they
// were made from, because `npm start` and `npm run dev` rewrite them alone.
if (isEverything || given.includes('--service')) await buildService();
if (isEverything && hasDevelopmentDependencies()) await buildAll();

async function generateClient() {
  await step(
    'prisma',
    [...SHARED, 'prisma/schema.prisma', 'prisma.config.ts'],
    'src/generated/prisma/client.ts',
    () =>
      // `generate` needs no engine, but the CLI downloads one unless this variable names an executable.
      run('prisma', ['generate', '--no-hints'], {
        PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
        CHECKPOINT_DISABLE: '1',
      }),
  );
}

async function buildPackages() {
  const inputs = [...SHARED];
  for (const folder of PACKAGED) {
    inputs.push(...['src', 'package.json', 'tsconfig.json'].map((name) => join(folder, name)));
    await step(folder, inputs, `${folder}/dist/main.js`, () => {
      rmSync(join(root, folder, 'dist'), { recursive: true, force: true });
      return run('tsc', ['-p', folder]).then(() => buildCommonJs(folder));
    });
  }
}

/**
 * What tools get that cannot load ES modules, such as Jest (docs/adr/0031): every entry of `exports` that has
 * `require`, made from the compiled ES modules. Dependencies are bundled, because `require` cannot load
 * theirs either. What several entries import is in chunks that they share: with a copy in each, an error of
 * one would be no instance of the other's class.
 */
async function buildCommonJs(folder) {
  const path = join(root, folder);
  const { exports } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
  const entries = Object.values(exports).filter((entry) => 'require' in Object(entry));
  if (entries.length === 0) return;
  if (!existsSync(join(root, 'node_modules/esbuild'))) failWithout('esbuild');
  const { build, transform } = await import('esbuild');
  const { outputFiles, metafile } = await build({
    absWorkingDir: path,
    entryPoints: entries.map((entry) => ({
      in: entry.default.default,
      out: entry.require.default.replace(/^\.\/|\.js$/g, ''),
    })),
    outdir: path,
    chunkNames: 'dist/cjs/[name]-[hash]',
    bundle: true,
    // esbuild makes chunks of ES modules only.
    splitting: true,
    format: 'esm',
    platform: 'node',
    metafile: true,
    write: false,
  });
  // tsc's declarations say the same for both kinds of module, and are read as those of the nearest
  // package.json.
  for (const name of readdirSync(join(path, 'dist'), { recursive: true }))
    if (name.endsWith('.d.ts')) cpSync(join(path, 'dist', name), join(path, 'dist/cjs', name));
  writeFileSync(join(path, 'dist/cjs/package.json'), '{ "type": "commonjs" }\n');
  for (const file of outputFiles) {
    const options = { format: 'cjs', platform: 'node', logOverride: { 'empty-import-meta': 'error' } };
    const { code } = await transform(file.text, options);
    writeFileSync(file.path, code);
  }
  writeLicences(join(path, 'dist/cjs/LICENSES.md'), path, Object.keys(metafile.inputs));
}

/** The licences of the packages whose files are bundled. */
function writeLicences(file, from, inputs) {
  const folders = inputs.map((input) => /^.*node_modules\/(@[^/]+\/)?[^/]+(?=\/)/.exec(input)?.[0]);
  const texts = [...new Set(folders.filter(Boolean))].sort().map((folder) => {
    const { name, version } = JSON.parse(readFileSync(join(from, folder, 'package.json'), 'utf8'));
    const licence = readdirSync(join(from, folder)).find((each) => /^licen[cs]e/i.test(each));
    if (!licence) throw new Error(`${name} has no licence that could be copied`);
    return `## ${name} ${version}\n\n${readFileSync(join(from, folder, licence), 'utf8').trim()}\n`;
  });
  if (texts.length > 0) writeFileSync(file, `# Packages in this build\n\n${texts.join('\n')}`);
}

async function buildAll() {
  const packaged = PACKAGED.flatMap((folder) => [`${folder}/src`, `${folder}/test`]);
  const sources = [...packaged, 'src', 'test', 'prisma.config.ts'];
  // tsc rewrites its build info whenever it writes output.
  await step('tsc', [...SHARED, ...sources], 'dist/.tsbuildinfo', () => run('tsc', []));
  if (given.includes('--lab'))
    await step('lab', [...SHARED, 'lab', ...sources], 'dist/.tsbuildinfo-lab', () =>
      run('tsc', ['-p', 'lab']),
    );
}

async function buildService() {
  const config = 'tsconfig.service.json';
  await step('service', [...SHARED, config, 'src'], 'dist/.tsbuildinfo-service', () =>
    run('tsc', ['-p', config]),
  );
  for (const folder of COPIED) cpSync(join(root, folder), join(root, 'dist', folder), { recursive: true });
  writeFileSync(join(root, 'dist/src/revision'), `${revision()}\n`);
}

/** One package stands for all: every test imports it. */
function hasDevelopmentDependencies() {
  return existsSync(join(root, 'node_modules/tap'));
}

/** The commit, with `-dirty` if files differ from it. Only our own repository counts, not one around the folder. */
function revision() {
  const given = process.env.REVISION;
  if (!given && !existsSync(join(root, '.git'))) return 'unknown';
  const describe = ['--no-optional-locks', 'describe', '--always', '--abbrev=40', '--exclude=*', '--dirty'];
  const found = given || spawnSync('git', describe, { cwd: root, encoding: 'utf8' }).stdout?.trim();
  if (!found) return 'unknown';
  if (/^[\w.-]{1,64}$/.test(found)) return found;
  process.stderr.write('REVISION is not a commit: give 1 to 64 letters, digits, dots and hyphens\n');
  process.exit(1);
}

/** Runs `work` unless its inputs and its output are unchanged since its last run. */
async function step(name, inputs, output, work) {
  const file = join(root, 'dist/.steps', name);
  const digest = digestOf(inputs);
  const state = () => `${digest} ${statSync(join(root, output), { throwIfNoEntry: false })?.mtimeMs}`;
  if (existsSync(file) && readFileSync(file, 'utf8') === state()) return;
  if (!isAnnounced) process.stderr.write('building\n');
  isAnnounced = true;
  await work();
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, state());
}

function digestOf(inputs) {
  const hash = createHash('sha256');
  const add = (path) => {
    if (!existsSync(path)) return;
    if (statSync(path).isDirectory()) for (const name of readdirSync(path).sort()) add(join(path, name));
    else hash.update(`${path.slice(root.length)}\0`).update(readFileSync(path));
  };
  for (const input of inputs) add(join(root, input));
  return hash.digest('hex');
}

async function run(tool, args, env = {}) {
  // Optional peers of @prisma/client, so they come without development dependencies too.
  if (!isInstalled(tool)) failWithout(tool, ' without --omit=optional');
  const child = spawn(process.execPath, [bin(tool), ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk) => (output += chunk));
  const endProgress = showProgress(tool);
  const [status] = await once(child, 'close');
  endProgress();
  if (status === 0) return;
  process.stderr.write(`${tool} failed:\n${output}`);
  process.exit(1);
}

function failWithout(tool, options = '') {
  process.stderr.write(`${tool} is not installed, and building needs it: run npm ci${options}\n`);
  process.exit(1);
}

/** @returns what removes the line. */
function showProgress(tool) {
  if (!process.stderr.isTTY) return () => {};
  const since = performance.now();
  const show = () =>
    process.stderr.write(`\r\x1b[K${tool}: ${Math.round((performance.now() - since) / 1000)} s`);
  show();
  const timer = setInterval(show, 1000);
  return () => {
    clearInterval(timer);
    process.stderr.write('\r\x1b[K');
  };
}

/** The compiler itself is an optional dependency of `typescript`, a package for each platform. */
function isInstalled(tool) {
  const compiler = `node_modules/@typescript/typescript-${process.platform}-${process.arch}`;
  return existsSync(bin(tool)) && (tool !== 'tsc' || existsSync(join(root, compiler)));
}

function bin(tool) {
  const paths = { prisma: 'node_modules/prisma/build/index.js', tsc: 'node_modules/typescript/bin/tsc' };
  return join(root, paths[tool]);
}
