import { spawnSync } from 'node:child_process';
import { skipReason } from './environment.ts';
import { PYTHON_MODULES } from './tools.ts';

/** Debian's packages belong to Debian's interpreter, which may not be the first in PATH. */
export const PYTHON_PATH = `/usr/bin:${process.env.PATH ?? ''}`;

/** Runs Python and waits for it. @param modules a folder with more modules. */
export function python(args: string[], { input = '', modules = '' } = {}) {
  const env = { PATH: PYTHON_PATH, PYTHONDONTWRITEBYTECODE: '1', ...(modules && { PYTHONPATH: modules }) };
  return spawnSync('python3', args, { env, input, encoding: 'utf8' });
}

export function cannotImport(what: string, modules = ''): boolean {
  return python(['-c', what], { modules }).status !== 0;
}

/** Why a test that needs these modules of PYTHON_MODULES cannot run here, or false. */
export function modulesMissing(...names: string[]): false | string {
  const missing = names.filter((name) => cannotImport(`import ${name}`));
  if (missing.length === 0) return false;
  const packages = missing.map((name) => PYTHON_MODULES[name]).join(' ');
  return skipReason(`Python lacks ${missing.join(', ')} (apt-get install ${packages})`);
}
