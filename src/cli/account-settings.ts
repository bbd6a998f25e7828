import type { PrismaClient } from '../generated/prisma/client.ts';
import { hashMemoryOf, loadSettings, type Config } from '../config/config.ts';
import { readVariable, type Environment } from '../config/environment.ts';
import { makeNewNames, type NewNames } from '../domain/users/new-names.ts';
import type { SecretBox } from '../domain/factors/ports.ts';
import { makeSecretBox, parseFactorKeys } from '../infra/crypto/factor-keys.ts';
import { existingFactorKeys, existingRefreshSecret, factorKeysOf } from '../infra/crypto/generated-keys.ts';
import { parseRefreshSecrets } from '../infra/crypto/keys.ts';
import { nameHashingOf, type NameHash, type NameHashing } from '../infra/crypto/name-hash.ts';
import type { ScryptCost } from '../infra/crypto/scrypt-hasher.ts';
import { hasReservedNames } from '../infra/postgres/names.ts';
import { CommandError } from './command.ts';

interface AccountSettings {
  newNames: NewNames;
  /** SCRYPT_*. */
  cost: ScryptCost;
  /** The most memory that a login may take, in bytes. */
  hashMemory: number;
}

/** The service's settings for new accounts. A command that adds some needs them as the service has them. */
export function accountSettings(env: Environment): AccountSettings {
  const hashing = ['SCRYPT_LOG_N', 'SCRYPT_R', 'SCRYPT_P', 'HASH_MEMORY'] as const;
  const config = loadSettings(env, 'RESERVED_USERNAMES', ...hashing);
  return {
    newNames: makeNewNames(config.RESERVED_USERNAMES),
    cost: { logN: config.SCRYPT_LOG_N, r: config.SCRYPT_R, p: config.SCRYPT_P },
    hashMemory: hashMemoryOf(config),
  };
}

/**
 * The keyed hashes under which the service reserves the names of deleted accounts, by its REFRESH_TOKEN_SECRET or the
 * secret in DATA_DIR.
 * @returns null without a secret.
 * @throws ConfigError, KeyError
 */
export function nameHashing(env: Environment): NameHashing | null {
  const config = loadSettings(env, 'REFRESH_TOKEN_SECRET', 'DATABASE_URL', 'DATA_DIR');
  const text = config.REFRESH_TOKEN_SECRET ?? inOwnFolder(config, env, existingRefreshSecret);
  return text === null ? null : nameHashingOf(parseRefreshSecrets(text).map(({ secret }) => secret));
}

/**
 * The service's FACTOR_KEYS, or the key that it has generated. Without any, nothing can be encrypted.
 * @throws ConfigError, KeyError
 */
export function openSecrets(env: Environment): SecretBox {
  const config = loadSettings(env, 'FACTOR_KEYS', 'DATABASE_URL', 'DATA_DIR');
  const text = factorKeysOf(config, existingFactorKeys);
  return makeSecretBox(text === null ? [] : parseFactorKeys(text));
}

/** A generated secret. The one in the default folder belongs to the embedded database. */
function inOwnFolder(
  { DATABASE_URL, DATA_DIR }: Pick<Config, 'DATABASE_URL' | 'DATA_DIR'>,
  env: Environment,
  read: (dataDir: string) => string | null,
): string | null {
  return DATABASE_URL === undefined || readVariable(env, 'DATA_DIR') !== undefined ? read(DATA_DIR) : null;
}

/**
 * For commands that add accounts: how to find reserved names. Without a secret, no name may be reserved.
 * @throws CommandError
 */
export async function reservedHashes(prisma: PrismaClient, hashing: NameHashing | null): Promise<NameHash> {
  if (hashing) return hashing.each;
  if (await hasReservedNames(prisma))
    throw new CommandError(`names of deleted accounts are reserved; to find them, ${NEEDS_SECRET}`);
  return () => [];
}

/** For an account store that adds and renames nobody. */
export const NO_NAMES = (): [] => [];

/** Ends a sentence about reserved names. */
export const NEEDS_SECRET = "the command needs the service's REFRESH_TOKEN_SECRET, or its DATA_DIR";
export const NEEDS_FACTOR_KEYS = "the command needs the service's FACTOR_KEYS";
