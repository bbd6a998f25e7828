import { accessSync, constants } from 'node:fs';
import { readSigningKeys } from '../infra/crypto/key-files.ts';
import { parseFactorKeys } from '../infra/crypto/factor-keys.ts';
import { loadCommonPasswords } from '../infra/crypto/common-passwords.ts';
import { KeyError, parseRefreshSecrets } from '../infra/crypto/keys.ts';
import { hashMemory } from '../infra/crypto/scrypt-hasher.ts';
import { connectionProblem } from '../infra/postgres/connection.ts';
import { makeNewNames } from '../domain/users/new-names.ts';
import { availableMemory } from '../runtime/memory.ts';
import { proxyWarnings } from './networks.ts';
import { tracingOf, type TracingTarget } from './tracing.ts';
import { ConfigError } from './config-error.ts';
import {
  isMissing,
  onlyVariables,
  ownEnvironment,
  readVariable,
  threadPoolSize,
  type Environment,
} from './environment.ts';
import { FIELDS, type Values } from './fields.ts';
import { readSeed, type Seed } from './seed.ts';
import { isFactorIssuer, isOfDomain, type Description } from './field-kinds.ts';

export { ConfigError, type Environment };

/** The whole configuration, checked once at the start. */
export interface Config extends Values {
  production: boolean;
  DOCS_ENABLED: boolean;
  FACTOR_ISSUER: string;
  LIMITED_TOKENS_ENABLED: boolean;
  /** The most memory that one hash may take, in bytes (`hashMemoryOf`). */
  hashMemory: number;
  /** The memory of the process with all hashes running, in bytes. */
  neededMemory: number;
  /** Reads the current REFRESH_TOKEN_SECRET: a mounted file may change while we run. null if it is not set. */
  readRefreshSecrets: (() => string) | null;
  /** The content of SEED_FILE; null for none. */
  seed: Seed | null;
  /** How spans are sent; null if tracing is off. */
  tracing: TracingTarget | null;
  /** Log lines about settings that are missing and replaced by an embedded default. */
  embedded: string[];
  /** Log lines about settings that are allowed but risky. */
  warnings: string[];
}

/** The memory limit for commands: they compute no hashes, so they may run in less memory than the service. */
export const NO_HASHES = Infinity;

/** Replacements for variables that are missing outside production. */
const EMBEDDED = {
  DATABASE_URL: 'the embedded PostgreSQL',
  REDIS_URL: 'the in-process session store',
  SIGNING_KEYS_DIR: 'generated signing keys',
  REFRESH_TOKEN_SECRET: 'a generated refresh token secret',
  FACTOR_KEYS: 'a generated factor key',
} as const;

/** OWASP's sets of scrypt parameters of equal strength: logN with r = 8, and the smallest p. */
const OWASP_MIN_P: Readonly<Record<number, number>> = { 17: 1, 16: 2, 15: 3, 14: 5, 13: 10 };

/** The minimum of NIST SP 800-63B and of OWASP ASVS 6.2.1. */
const LEAST_PASSWORD = 8;

/** The parameters of DATABASE_URL that name files. */
const DATABASE_FILES = ['sslrootcert', 'sslcert', 'sslkey'];

/**
 * Memory that the process needs besides the hashes, in bytes. Up to 351 MiB were measured with `npm run bench`, which
 * fails if it finds more than this.
 */
export const BASE_MEMORY = 384 * 1024 ** 2;

/**
 * Reads the configuration from the environment.
 * @throws ConfigError with every problem found.
 */
export function loadConfig(env: Environment = ownEnvironment(), memoryLimit = availableMemory()): Config {
  const problems: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, { schema }] of Object.entries(FIELDS)) {
    const raw = readVariable(env, name, problems);
    const parsed = schema.safeParse(raw);
    if (parsed.success) values[name] = parsed.data;
    else problems.push(`${name} ${parsed.error.issues.map(({ message }) => message).join(', ')}`);
  }

  const config = values as unknown as Values;
  const production = config.NODE_ENV === 'production';
  const embedded = (Object.keys(EMBEDDED) as (keyof typeof EMBEDDED)[]).filter(
    // Without FACTOR_KEYS, another database has no second factors.
    (name) => isMissing(env, name) && (name !== 'FACTOR_KEYS' || isMissing(env, 'DATABASE_URL')),
  );
  if (production) {
    const needed = Object.entries<Description>(FIELDS).filter(
      ([name, { required }]) => required && isMissing(env, name),
    );
    problems.push(...needed.map(([name]) => `${name} is required in production`));
    const refused = Object.entries<Description>(FIELDS).filter(
      ([name, { refusedInProduction }]) => refusedInProduction && !isMissing(env, name),
    );
    problems.push(...refused.map(([name]) => `${name} must not be set in production`));
    problems.push(...weakHashProblems(config));
    if (config.PASSWORD_MIN_LENGTH < LEAST_PASSWORD)
      problems.push(`PASSWORD_MIN_LENGTH must be at least ${LEAST_PASSWORD} in production`);
    // Six digits fall to whoever may try them all.
    if (config.RATE_LIMIT_FACTOR === null) problems.push('RATE_LIMIT_FACTOR must not be 0 in production');
  }
  problems.push(...databaseProblems(config));
  problems.push(...redisProblems(config));
  problems.push(...keyProblems(config));
  problems.push(...passkeyProblems(config));
  problems.push(...hashMemoryProblems(config, memoryLimit, env));
  const seed = production ? null : seedOf(config);
  if (Array.isArray(seed)) problems.push(...seed.map((problem) => `SEED_FILE: ${problem}`));
  const issuer = defaultIssuer(config, env);
  // Otherwise a service that checks users' tokens by itself would take a service token for Latchkey as one of them.
  if (issuer === config.AUDIENCE)
    problems.push('AUDIENCE must not equal ISSUER, which is the audience of service tokens');
  if (Array.isArray(seed) || problems.length > 0) throw new ConfigError(problems);

  return Object.freeze({
    ...config,
    ISSUER: issuer,
    FACTOR_ISSUER: config.FACTOR_ISSUER ?? defaultFactorIssuer(issuer),
    hashMemory: hashMemoryOf(config),
    neededMemory: memoryOf(config).needed,
    DOCS_ENABLED: config.DOCS_ENABLED ?? !production,
    LIMITED_TOKENS_ENABLED: config.LIMITED_TOKENS_ENABLED ?? config.LLT_ENABLED,
    production,
    seed,
    tracing: tracingOf(config),
    readRefreshSecrets: isMissing(env, 'REFRESH_TOKEN_SECRET')
      ? null
      : () => requireVariable(env, 'REFRESH_TOKEN_SECRET'),
    embedded: embedded.map((name) => `${name} is not set: using ${EMBEDDED[name]}`),
    warnings: [...proxyWarnings(config.TRUST_PROXY), ...issuerWarnings(issuer, config, env)],
  });
}

/** With the embedded database the issuer follows the port. Otherwise it is fixed, since replicas have to agree. */
function defaultIssuer({ ISSUER, DATABASE_URL, PORT }: Values, env: Environment): string {
  const isOpen = isMissing(env, 'ISSUER') && DATABASE_URL === undefined && PORT !== 0;
  return isOpen ? `http://localhost:${PORT}` : ISSUER;
}

/** The host without the port, which says nothing to users, if that is such a name: IPv6's colons would end it in apps. */
function defaultFactorIssuer(issuer: string): string {
  const { hostname } = new URL(issuer);
  return isFactorIssuer(hostname) ? hostname : 'Latchkey';
}

function issuerWarnings(issuer: string, { PORT }: Values, env: Environment): string[] {
  if (!isMissing(env, 'ISSUER') || issuer === `http://localhost:${PORT}`) return [];
  const port = PORT === 0 ? 'a free port' : `port ${PORT}`;
  return [`ISSUER is not set: tokens name ${issuer}, but the service listens on ${port}; set ISSUER`];
}

/** @throws KeyError that names the file, if it cannot be read. */
function requireVariable(env: Environment, name: string): string {
  const problems: string[] = [];
  const value = readVariable(env, name, problems);
  if (problems[0] !== undefined) throw new KeyError(problems[0]);
  return value ?? '';
}

/**
 * The settings of these names, each also as NAME_FILE. A job that runs a command may have no others, and what is wrong
 * with the others does not stop it.
 * @throws ConfigError
 */
export function loadSettings<Name extends keyof Values>(
  env: Environment,
  ...names: readonly (Name | 'UV_THREADPOOL_SIZE')[]
): Pick<Config, Name> {
  return loadConfig(onlyVariables(env, names), NO_HASHES);
}

/** They name the database. */
export const DATABASE_SETTINGS = ['DATABASE_URL', 'DATABASE_CA', 'DATABASE_TIMEOUT'] as const;

/** Problems of the DATABASE_ variables in combination. Each was parsed before; an invalid one is undefined. */
export function databaseProblems({ DATABASE_URL: url, DATABASE_CA: ca }: Partial<Values>): string[] {
  const query = url === undefined ? new URLSearchParams() : new URL(url).searchParams;
  const problems = DATABASE_FILES.flatMap((name) => missingFile(name, query.get(name)));
  if (url !== undefined && problems.length === 0) {
    const problem = connectionProblem(url, ca);
    if (problem !== null) problems.push(`DATABASE_URL ${problem}`);
  }
  if (ca === undefined) return problems;
  if (query.get('sslmode') !== 'verify-full')
    problems.push('DATABASE_CA needs a DATABASE_URL with sslmode=verify-full');
  if (query.has('sslrootcert')) problems.push('DATABASE_CA and sslrootcert of DATABASE_URL are both set');
  return problems;
}

function missingFile(name: string, path: string | null): string[] {
  // pg takes an empty one as missing.
  if (path === null || path === '') return [];
  try {
    accessSync(path, constants.R_OK);
    return [];
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    return [`DATABASE_URL: ${name}=${path} cannot be read (${code})`];
  }
}

/** Problems of the REDIS_ variables in combination. Each was parsed before; an invalid one is undefined. */
function redisProblems(values: Partial<Values>): string[] {
  const { REDIS_URL: server, REDIS_MODE: mode, REDIS_NODES: nodes, REDIS_SENTINEL_NAME: name } = values;
  const { REDIS_SENTINEL_USERNAME: username, REDIS_SENTINEL_PASSWORD: password, REDIS_CA: ca } = values;
  const problems: string[] = [];
  const refuse = (isWrong: boolean, problem: string) => {
    if (isWrong) problems.push(problem);
  };
  const isCluster = mode === 'cluster';
  const isSentinel = mode === 'sentinel';

  refuse((isCluster || isSentinel) && server === undefined, `REDIS_URL is required with REDIS_MODE=${mode}`);
  refuse((isCluster || isSentinel) && nodes?.length === 0, `REDIS_NODES is required with REDIS_MODE=${mode}`);
  refuse(mode === 'single' && (nodes?.length ?? 0) > 0, 'REDIS_NODES needs REDIS_MODE=sentinel or cluster');
  refuse(isSentinel && name === undefined, 'REDIS_SENTINEL_NAME is required with REDIS_MODE=sentinel');
  for (const [variable, value] of Object.entries({
    REDIS_SENTINEL_NAME: name,
    REDIS_SENTINEL_USERNAME: username,
    REDIS_SENTINEL_PASSWORD: password,
  })) {
    refuse(!isSentinel && mode !== undefined && value !== undefined, `${variable} needs REDIS_MODE=sentinel`);
  }
  refuse(ca !== undefined && !server?.hasTls, 'REDIS_CA needs a REDIS_URL that begins with rediss://');
  refuse(
    isCluster && server !== undefined && server.database > 0,
    'REDIS_URL must not name a database: a cluster has only 0',
  );
  return problems;
}

/** A trial read, so that all problems are reported at once. The key ring reads the keys again when it opens. */
function keyProblems({
  SIGNING_KEYS_DIR: directory,
  REFRESH_TOKEN_SECRET: secrets,
  FACTOR_KEYS: factorKeys,
}: Values): string[] {
  const problems: string[] = [];
  const attempt = (name: string, read: () => unknown) => {
    try {
      read();
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      problems.push(
        `${name}: ${error instanceof KeyError ? message : `cannot be read (${code ?? 'unknown'})`}`,
      );
    }
  };
  if (directory !== undefined) attempt('SIGNING_KEYS_DIR', () => readSigningKeys(directory));
  if (secrets !== undefined) attempt('REFRESH_TOKEN_SECRET', () => parseRefreshSecrets(secrets));
  if (factorKeys !== undefined) attempt('FACTOR_KEYS', () => parseFactorKeys(factorKeys));
  return problems;
}

/** Problems of the two settings in combination. Each was parsed before; an invalid one is undefined. */
function passkeyProblems({ WEBAUTHN_RP_ID: id, WEBAUTHN_ORIGINS: origins }: Partial<Values>): string[] {
  if (id === undefined || origins === undefined) return [];
  if (id === null) return origins.length > 0 ? ['WEBAUTHN_ORIGINS needs WEBAUTHN_RP_ID'] : [];
  if (origins.length === 0) return ['WEBAUTHN_RP_ID needs WEBAUTHN_ORIGINS'];
  return origins
    .filter((origin) => !isOfDomain(origin, id))
    .map((origin) => `WEBAUTHN_ORIGINS: the host of ${origin} is neither WEBAUTHN_RP_ID nor below it`);
}

/** @returns the problems, if there are any. Each setting was parsed before; an invalid one is undefined. */
function seedOf(values: Partial<Values>): Seed | string[] | null {
  const { SEED_FILE: file, RESERVED_USERNAMES: reserved = [], PASSWORD_MIN_LENGTH: least = 1 } = values;
  if (file === undefined) return null;
  return readSeed(file, {
    newNames: makeNewNames(reserved),
    passwordMinLength: least,
    isCommonPassword: loadCommonPasswords(),
    // The embedded database has a generated key.
    canSeal: values.FACTOR_KEYS !== undefined || values.DATABASE_URL === undefined,
    ownAudience: values.AUDIENCE ?? '',
  });
}

function weakHashProblems({ SCRYPT_LOG_N: logN, SCRYPT_R: r, SCRYPT_P: p }: Values): string[] {
  if (![logN, r, p].every(Number.isInteger)) return [];
  const minP = OWASP_MIN_P[Math.min(logN, 17)] ?? Infinity;
  if (r >= 8 && p >= minP) return [];
  return [
    `SCRYPT_LOG_N/R/P ${logN}/${r}/${p} is weaker than OWASP's sets (17/8/1, 16/8/2, 15/8/3, 14/8/5, 13/8/10)`,
  ];
}

/** The memory of one hash, and of the process with all hashes running, in bytes. */
export function memoryOf(config: Values): { one: number; needed: number } {
  const one = hashMemoryOf(config);
  return { one, needed: BASE_MEMORY + config.HASH_CONCURRENCY * one };
}

/** The most memory that one hash may take, in bytes. */
export function hashMemoryOf(config: Pick<Values, 'SCRYPT_LOG_N' | 'SCRYPT_R' | 'HASH_MEMORY'>): number {
  const own = hashMemory({ logN: config.SCRYPT_LOG_N, r: config.SCRYPT_R });
  return Math.max(own, config.HASH_MEMORY * 1024 ** 2);
}

function hashMemoryProblems(config: Values, memoryLimit: number, env: Environment): string[] {
  const { HASH_CONCURRENCY: concurrency, SCRYPT_LOG_N: logN, SCRYPT_R: r, HASH_MEMORY } = config;
  if (![concurrency, logN, r, HASH_MEMORY].every(Number.isInteger)) return [];
  const problems: string[] = [];
  const { one, needed } = memoryOf(config);
  if (needed > memoryLimit) {
    const source = one > hashMemory({ logN, r }) ? 'HASH_MEMORY' : `128 x 2^${logN} x ${r}`;
    problems.push(
      `HASH_CONCURRENCY ${concurrency} x ${mib(one)} (${source}) + ${mib(BASE_MEMORY)} for the process ` +
        `= ${mib(needed)}, but the memory limit is ${mib(memoryLimit)}`,
    );
  }
  const threads = threadPoolSize(env);
  if (!Number.isInteger(threads)) problems.push('UV_THREADPOOL_SIZE must be a whole number');
  if (concurrency >= threads) {
    problems.push(
      `HASH_CONCURRENCY ${concurrency} takes all ${threads} threads that DNS look-ups share: ` +
        `set UV_THREADPOOL_SIZE to ${concurrency + 2} or more`,
    );
  }
  return problems;
}

/** Bytes as a text, such as `384 MiB`. */
export function mib(bytes: number): string {
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}
