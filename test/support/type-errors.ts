import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { ROOT } from './documents.ts';

export interface TypeError {
  file: string;
  /** From 1. */
  line: number;
  message: string;
}

/**
 * Compiles files of one folder in one run of tsc, and emits them beside their sources even if they have errors.
 * @param files their names
 * @param types packages below node_modules/@types that the files see
 */
export function typeErrors(folder: string, files: readonly string[], types: readonly string[]): TypeError[] {
  const options = [
    '--ignoreConfig',
    '--strict',
    '--skipLibCheck',
    '--pretty',
    'false',
    '--module',
    'nodenext',
  ];
  const lib = ['--target', 'es2023', '--lib', 'es2023,dom,dom.iterable', '--types', types.join(',')];
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    [join(ROOT, 'node_modules/typescript/bin/tsc'), ...options, ...lib, ...files],
    { cwd: folder, encoding: 'utf8', maxBuffer: 2 ** 26 },
  );
  const errors = [...stdout.matchAll(/^([^\s(][^(\n]*)\((\d+),\d+\): error TS\d+: (.*(?:\n .*)*)/gm)].map(
    ([, file = '', line = '', message = '']) => ({ file, line: Number(line), message }),
  );
  // Otherwise a compiler that did not run would look like programs without errors.
  if ((status === 0) !== (errors.length === 0))
    throw new Error(`tsc ended with ${status}: ${stdout}${stderr}`);
  return errors;
}
