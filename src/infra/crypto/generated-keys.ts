import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { generateSigningKey } from './keys.ts';

/**
 * The embedded defaults: keys that are made at the first start and kept. Several processes may start on one folder at
 * once: whoever comes first wins, and all use its keys.
 */
export function generatedSigningKeysDir(dataDir: string): string {
  const directory = join(dataDir, 'keys');
  createOnce(join(directory, '0001.pem'), () => generateSigningKey());
  return directory;
}

/** The generated refresh secret, base64url. */
export function generatedRefreshSecret(dataDir: string): string {
  const file = join(dataDir, 'refresh-token-secret');
  createOnce(file, () => randomBytes(32).toString('base64url'));
  return readFileSync(file, 'utf8');
}

/**
 * A file is either not there or whole: written aside, then linked into place, which fails where it exists.
 * @returns whether it was not there.
 */
export function createOnce(file: string, content: () => string): boolean {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const aside = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  writeFileSync(aside, content(), { mode: 0o600 });
  try {
    linkSync(aside, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    return false;
  } finally {
    rmSync(aside, { force: true });
  }
}
