import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { ROOT } from '../support/documents.ts';
import { testFolder } from '../support/folder.ts';

/** The commit of 1.0.0. */
const COMMIT = 'c3a67076';

/** 1.0.0 as its history has it, built with the packages of this version. @returns its folder */
export function buildFirstRelease(t: Test): string {
  const folder = join(testFolder(t), 'first-release');
  mkdirSync(folder);
  const run = (program: string, words: string[], options: { input?: Buffer; env?: NodeJS.ProcessEnv } = {}) =>
    execFileSync(program, words, {
      cwd: folder,
      maxBuffer: 2 ** 28,
      stdio: ['pipe', 'pipe', 'pipe'],
      ...options,
    });
  const input = execFileSync(
    'git',
    [
      '-C',
      ROOT,
      'archive',
      COMMIT,
      'src',
      'prisma',
      'package.json',
      'prisma.config.ts',
      'tsconfig.json',
      'tsconfig.service.json',
    ],
    { maxBuffer: 2 ** 28 },
  );
  run('tar', ['-x'], { input });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const tool = (path: string, ...words: string[]) =>
    run(process.execPath, [join(ROOT, 'node_modules', path), ...words], {
      // As scripts/build.mjs does: no engine is downloaded.
      env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' },
    });
  tool('prisma/build/index.js', 'generate', '--no-hints');
  tool('typescript/bin/tsc', '-p', 'tsconfig.service.json');
  for (const copied of ['src/infra/redis/lua', 'src/infra/crypto/breached-passwords'])
    cpSync(join(folder, copied), join(folder, 'dist', copied), { recursive: true });
  writeFileSync(join(folder, 'dist/src/revision'), COMMIT);
  return folder;
}
