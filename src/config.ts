import { readFileSync } from 'node:fs';
import os from 'node:os';
import { readSigningKeys } from './infra/crypto/key-files.ts';
import { KeyError, parseRefreshSecrets } from './infra/crypto/keys.ts';
import { hashMemory } from './infra/crypto/scrypt-hasher.ts';
import { redisProblems } from './config-redis.ts';
import { tracingOf, type TracingProtocol } from './config-tracing.ts';
import { FIELDS, type Values } from './config-fields.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/** The whole configuration, checked once at the start. */
export interface Config extends Values {
  production: boolean;
  /** Reads REFRESH_TOKEN_SECRET as it is now; null where none was given. A mounted file changes while we run. */
  readRefreshSecrets: (() => string) | null;
  /** How spans are sent; null where nobody asked for them. */
  tracing: TracingProtocol | null;
  /** What was not given and is embedded instead, for the log. */
  embedded: string[];
}

/** Everything that is wrong with the environment, at once. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(['The configuration cannot be used:', ...problems.map((problem) => `  - ${problem}`)].join('\n'));
    this.problems = problems;
  }
}

/** As the memory limit of commands: they compute no hashes, and may run in less memory than the service. */
export const NO_HASHES = Infinity;

/** What replaces a variable that is missing outside of production. */
const EMBEDDED = {
  DATABASE_URL: 'the embedded PostgreSQL',
  REDIS_URL: 'the in-process session store',
  SIGNING_KEYS_DIR: 'generated signing keys',
  REFRESH_TOKEN_SECRET: 'a generated refresh token secret',
} as const;

/** OWASP's sets of scrypt parameters of equal strength: logN with r = 8, and the smallest p. */
const OWASP_MIN_P: Readonly<Record<number, number>> = { 17: 1, 16: 2, 15: 3, 14: 5, 13: 10 };

/** What the process needs besides the hashes, in bytes. */
const BASE_MEMORY = 128 * 1024 ** 2;

/**
 * Reads the configuration from the environment.
 * @throws ConfigError with every problem there is.
 */
export function loadConfig(env: Environment = process.env, memoryLimit = availableMemory()): Config {
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
  const embedded = (Object.keys(EMBEDDED) as (keyof typeof EMBEDDED)[]).filter((name) =>
    isMissing(env, name),
  );
  if (production) {
    const needed = [...embedded, ...(isMissing(env, 'ISSUER') ? ['ISSUER'] : [])];
    problems.push(...needed.map((name) => `${name} is required in production`));
    problems.push(...weakHashing(config));
  }
  problems.push(...redisProblems(config));
  problems.push(...unusableKeys(config));
  problems.push(...hashingThatCannotFit(config, memoryLimit, env));
  if (problems.length > 0) throw new ConfigError(problems);

  return Object.freeze({
    ...config,
    production,
    tracing: tracingOf(config),
    readRefreshSecrets: isMissing(env, 'REFRESH_TOKEN_SECRET')
      ? null
      : () => readVariable(env, 'REFRESH_TOKEN_SECRET', []) ?? '',
    embedded: embedded.map((name) => `${name} is not set: using ${EMBEDDED[name]}`),
  });
}

/** A variable, or the content of the file that `NAME_FILE` points to. An empty one counts as missing. */
function readVariable(env: Environment, name: string, problems: string[]): string | undefined {
  const value = env[name];
  const file = env[`${name}_FILE`];
  if (value && file) problems.push(`${name} and ${name}_FILE are both set`);
  if (value || !file) return value === '' ? undefined : value;
  try {
    return readFileSync(file, 'utf8').trim() || undefined;
  } catch (error) {
    problems.push(`${name}_FILE cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`);
    return undefined;
  }
}

/** The variables that name the database. The others need not be set for a command: a job knows little else. */
export function databaseVariables(env: Environment): Environment {
  const { DATABASE_URL, DATABASE_URL_FILE, DATABASE_TIMEOUT } = env;
  return { DATABASE_URL, DATABASE_URL_FILE, DATABASE_TIMEOUT };
}

function isMissing(env: Environment, name: string): boolean {
  return !env[name] && !env[`${name}_FILE`];
}

/** Keys are read once more when the key ring opens; here they are only tried, so that all problems come at once. */
function unusableKeys({ SIGNING_KEYS_DIR: directory, REFRESH_TOKEN_SECRET: secrets }: Values): string[] {
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
  return problems;
}

function weakHashing({ SCRYPT_LOG_N: logN, SCRYPT_R: r, SCRYPT_P: p }: Values): string[] {
  if (![logN, r, p].every(Number.isInteger)) return [];
  const minP = OWASP_MIN_P[Math.min(logN, 17)] ?? Infinity;
  if (r >= 8 && p >= minP) return [];
  return [
    `SCRYPT_LOG_N/R/P ${logN}/${r}/${p} is weaker than OWASP's sets (17/8/1, 16/8/2, 15/8/3, 14/8/5, 13/8/10)`,
  ];
}

/** What one hash takes, and what the process needs with all of them at work; bytes. */
export function memoryOf(config: Values): { one: number; needed: number } {
  const one = hashMemory({ logN: config.SCRYPT_LOG_N, r: config.SCRYPT_R });
  return { one, needed: BASE_MEMORY + config.HASH_CONCURRENCY * one };
}

function hashingThatCannotFit(config: Values, memoryLimit: number, env: Environment): string[] {
  const { HASH_CONCURRENCY: concurrency, SCRYPT_LOG_N: logN, SCRYPT_R: r } = config;
  if (![concurrency, logN, r].every(Number.isInteger)) return [];
  const problems: string[] = [];
  const { one, needed } = memoryOf(config);
  if (needed > memoryLimit) {
    problems.push(
      `HASH_CONCURRENCY ${concurrency} x ${mib(one)} (128 x 2^${logN} x ${r}) + ${mib(BASE_MEMORY)} for the process ` +
        `= ${mib(needed)}, but the memory limit is ${mib(memoryLimit)}`,
    );
  }
  const threads = Number(env.UV_THREADPOOL_SIZE ?? 4);
  if (concurrency >= threads) {
    problems.push(
      `HASH_CONCURRENCY ${concurrency} takes all ${threads} threads that DNS look-ups share: ` +
        `set UV_THREADPOOL_SIZE to ${concurrency + 2} or more`,
    );
  }
  return problems;
}

function mib(bytes: number): string {
  return `${Math.round(bytes / 1024 ** 2)} MiB`;
}

/** The container's memory limit, or the machine's memory. */
export function availableMemory(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, os.totalmem()) : os.totalmem();
}
