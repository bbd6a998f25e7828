import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { generateSigningKey } from './keys.ts';

/**
 * The embedded defaults: keys that are created at the first start and kept. If several processes start on one folder at
 * once, the first one creates the keys, and all use them.
 */
export function generatedSigningKeysDir(dataDir: string): string {
  const directory = join(dataDir, 'keys');
  createOnce(join(directory, '0001.pem'), () => generateSigningKey());
  return directory;
}

/** The generated refresh secret, base64url. */
export function generatedRefreshSecret(dataDir: string): string {
  return generatedSecret(refreshSecretFile(dataDir));
}

/** The generated FACTOR_KEYS: one key, base64url. */
export function generatedFactorKeys(dataDir: string): string {
  return generatedSecret(factorKeysFile(dataDir));
}

function generatedSecret(file: string): string {
  createOnce(file, () => randomBytes(32).toString('base64url'));
  return readFileSync(file, 'utf8');
}

/** The same, if the service has generated it; null if not. */
export function existingRefreshSecret(dataDir: string): string | null {
  return contentOf(refreshSecretFile(dataDir));
}

/** FACTOR_KEYS, likewise. */
export function existingFactorKeys(dataDir: string): string | null {
  return contentOf(factorKeysFile(dataDir));
}

/**
 * The setting FACTOR_KEYS, or else the key in DATA_DIR. That one serves only the embedded database: replicas that share
 * a database need not share a folder, and each would encrypt under a key of its own.
 * @param inDataDir generates the key, or finds the one that the service has generated.
 * @returns null for none: no factor can be added.
 */
export function factorKeysOf(
  config: { FACTOR_KEYS?: string | undefined; DATABASE_URL?: string | undefined; DATA_DIR: string },
  inDataDir: (dataDir: string) => string | null,
): string | null {
  const { FACTOR_KEYS, DATABASE_URL, DATA_DIR } = config;
  return FACTOR_KEYS ?? (DATABASE_URL === undefined ? inDataDir(DATA_DIR) : null);
}

function contentOf(file: string): string | null {
  return existsSync(file) ? readFileSync(file, 'utf8') : null;
}

function factorKeysFile(dataDir: string): string {
  return join(dataDir, 'factor-keys');
}

function refreshSecretFile(dataDir: string): string {
  return join(dataDir, 'refresh-token-secret');
}

/**
 * Creates a file in one step: writes a draft, then links it to its name, which fails if the file exists. So no process
 * reads half a file.
 * @returns false if the file existed.
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
