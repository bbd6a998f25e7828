import { spawnSync } from 'node:child_process';
import { skipReason } from './environment.ts';
import { PYTHON_MODULES } from './tools.ts';

const SCRIPT = new URL('../../../test/support/foreign-hashes.py', import.meta.url).pathname;

/** Debian's packages belong to Debian's interpreter, which may not be the first in PATH. */
const PATH = `/usr/bin:${process.env.PATH ?? ''}`;

function python(args: string[], { input = '', modules = '' } = {}) {
  const env = { PATH, ...(modules && { PYTHONPATH: modules }) };
  return spawnSync('python3', args, { env, input, encoding: 'utf8' });
}

function cannotImport(what: string, modules = ''): boolean {
  return python(['-c', what], { modules }).status !== 0;
}

/** Why no hashes can be made here, or false. */
export function hashersMissing(): false | string {
  const missing = Object.entries(PYTHON_MODULES).filter(([name]) => cannotImport(`import ${name}`));
  if (missing.length === 0) return false;
  const packages = missing.map(([, debian]) => debian).join(' ');
  return skipReason(`Python lacks ${missing.map(([name]) => name).join(', ')} (apt-get install ${packages})`);
}

/** TEST_DJANGO: a folder with a newer Django than Debian 12's, which has no scrypt. */
const { TEST_DJANGO = '' } = process.env;

/** Why Django's scrypt hashes cannot be made here, or false. */
export function djangoScryptMissing(): false | string {
  const isMissing = cannotImport('from django.contrib.auth.hashers import ScryptPasswordHasher', TEST_DJANGO);
  if (!isMissing) return false;
  const folder = '/tmp/django';
  return skipReason(
    `Python lacks Django 4 or later (pip install --target ${folder} django, and TEST_DJANGO=${folder})`,
  );
}

/**
 * Hashes of a password by the libraries of other systems, by name: argon2-cffi, bcrypt, passlib and Django.
 * @throws Error if one of them fails.
 */
export function foreignHashes(password: string): Record<string, string> {
  return made(python([SCRIPT], { input: password }));
}

/** A hash by the scrypt of Django 4 or later. */
export function djangoScryptHash(password: string): string {
  const hashes = made(python([SCRIPT, 'django-scrypt'], { input: password, modules: TEST_DJANGO }));
  return hashes['django scrypt'] ?? '';
}

function made({ status, stdout, stderr }: ReturnType<typeof python>): Record<string, string> {
  if (status !== 0) throw new Error(`foreign-hashes.py failed: ${stderr}`);
  return JSON.parse(stdout) as Record<string, string>;
}
