import { skipReason } from '../../support/environment.ts';
import { cannotImport, modulesMissing, python } from '../../support/python.ts';

const SCRIPT = new URL('../../../../test/infra/crypto/foreign-hashes.py', import.meta.url).pathname;

/** Why no hashes can be made here, or false. */
export function hashersMissing(): false | string {
  return modulesMissing('argon2', 'bcrypt', 'django', 'passlib');
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
