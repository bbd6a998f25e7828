// Builds dist/: the Prisma client, TypeScript, and the Lua scripts that tsc does not copy.
// `--if-missing` builds only where no finished build newer than its sources exists.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const stamp = join(root, 'dist/.built');
const sources = ['src', 'test', 'prisma', 'package.json', 'tsconfig.json'];

if (!process.argv.includes('--if-missing') || isStale()) build();

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
  // `generate` needs no engine, but the CLI downloads one unless it is told of an executable.
  run('prisma', ['generate', '--no-hints'], {
    PRISMA_SCHEMA_ENGINE_BINARY: process.execPath,
    CHECKPOINT_DISABLE: '1',
  });
  run('tsc', []);
  // Types for those who import latchkey/verifier.
  run('tsc', ['-p', 'src/verifier']);
  cpSync(join(root, 'src/infra/redis/lua'), join(root, 'dist/src/infra/redis/lua'), { recursive: true });
  writeFileSync(stamp, '');
}

function run(tool, args, env = {}) {
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
