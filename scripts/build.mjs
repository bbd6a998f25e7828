// Builds dist/: the Prisma client, TypeScript, what tsc does not copy (the Lua scripts and the breached passwords), and
// the revision: that of git, or the environment's REVISION where there is no repository.
// Builds packages/verifier/dist, which other services install. Skips a step if its inputs have not changed since the last build and its outputs exist.
// Without development dependencies (`npm ci --omit=dev`, or NODE_ENV=production) it builds only the service and checks no
// types: those of some packages are missing.
// `--verifier` builds only the package, for `npm pack`. `--lab` builds the laboratory too.
// `--if-missing` builds only if no finished build is newer than its sources.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
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
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const stamp = join(root, 'dist/.built');
/** Folders that the compiled code reads as they are. */
const COPIED = ['src/infra/redis/lua', 'src/infra/crypto/breached-passwords'];
/** The package for other services, and what its build reads. */
const VERIFIER = 'packages/verifier';
const VERIFIER_SOURCES = ['src', 'package.json', 'tsconfig.json'].map((name) => join(VERIFIER, name));
const sources = ['src', 'test', 'prisma', 'package.json', 'tsconfig.json', ...VERIFIER_SOURCES];

const PACKAGES = ['package-lock.json', 'tsconfig.json'];

if (process.argv.includes('--verifier')) buildVerifier();
else if (!process.argv.includes('--if-missing') || isStale()) build();

function isStale() {
  if (!existsSync(stamp)) return true;
  const built = statSync(stamp).mtimeMs;
  return sources.map((source) => join(root, source)).some((path) => existsSync(path) && newest(path) > built);
}

function newest(path) {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(
    ...readdirSync(path)
      .filter((name) => name !== 'generated')
      .map((name) => newest(join(path, name))),
    0,
  );
}

function build() {
  step(
    'prisma',
    [...PACKAGES, 'prisma/schema.prisma', 'prisma.config.ts'],
    'src/generated/prisma/client.ts',
    () => {
      // `generate` needs no engine, but the CLI downloads one unless this variable names an executable.
      run('prisma', ['generate', '--no-hints'], {
        PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
        CHECKPOINT_DISABLE: '1',
      });
    },
  );
  if (hasDevelopmentDependencies()) buildAll();
  else buildService();
  for (const folder of COPIED) cpSync(join(root, folder), join(root, 'dist', folder), { recursive: true });
  writeFileSync(join(root, 'dist/src/revision'), `${revision()}\n`);
  writeFileSync(stamp, '');
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

/** Checks one package for all: every test imports it. */
function hasDevelopmentDependencies() {
  return existsSync(join(root, 'node_modules/tap'));
}

function buildAll() {
  // Before the tests, which import the package. The image's build has only its package.json.
  if (existsSync(join(root, VERIFIER, 'src'))) buildVerifier();
  // tsc rewrites its build info whenever it writes output.
  const sources = [`${VERIFIER}/src`, 'src', 'test', 'prisma.config.ts'];
  step('tsc', [...PACKAGES, ...sources], 'dist/.tsbuildinfo', () => run('tsc', []));
  if (process.argv.includes('--lab'))
    step('lab', [...PACKAGES, 'lab', ...sources], 'dist/.tsbuildinfo-lab', () => run('tsc', ['-p', 'lab']));
}

function buildVerifier() {
  step('verifier', [...PACKAGES, ...VERIFIER_SOURCES], `${VERIFIER}/dist/main.js`, () => {
    rmSync(join(root, VERIFIER, 'dist'), { recursive: true, force: true });
    run('tsc', ['-p', VERIFIER]);
  });
}

function buildService() {
  const config = 'tsconfig.service.json';
  step('service', [...PACKAGES, config, 'src'], 'dist/.tsbuildinfo-service', () =>
    run('tsc', ['-p', config]),
  );
}

/** Runs `work` unless its inputs and its output are unchanged since its last run. */
function step(name, inputs, output, work) {
  const file = join(root, 'dist/.steps', name);
  const digest = digestOf(inputs);
  const state = () => `${digest} ${statSync(join(root, output), { throwIfNoEntry: false })?.mtimeMs}`;
  if (existsSync(file) && readFileSync(file, 'utf8') === state()) return;
  work();
  mkdirSync(join(root, 'dist/.steps'), { recursive: true });
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

function run(tool, args, env = {}) {
  if (!existsSync(bin(tool))) {
    // Optional peers of @prisma/client, so they come without development dependencies too (ADR 6).
    process.stderr.write(
      `${tool} is not installed, and building needs it: run npm ci without --omit=optional\n`,
    );
    process.exit(1);
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [bin(tool), ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    encoding: 'utf8',
  });
  if (status === 0) return;
  process.stderr.write(`${tool} failed:\n${stdout}${stderr}`);
  process.exit(1);
}

function bin(tool) {
  const paths = { prisma: 'node_modules/prisma/build/index.js', tsc: 'node_modules/typescript/bin/tsc' };
  return join(root, paths[tool]);
}
