import type { AccountKey } from '../domain/identifiers.ts';
import { ConfigError, databaseVariables, loadConfig, NO_HASHES, type Environment } from '../config/config.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { makePostgres, type Postgres } from '../infra/postgres/client.ts';
import { migrate } from '../infra/postgres/migrate.ts';
import type { Values } from './arguments.ts';

/** One of `latchkey`'s commands. @throws UsageError, CommandError, ConfigError, AuthError `unavailable` */
export type Command = (invocation: Invocation) => Promise<Outcome>;

export interface Invocation {
  env: Environment;
  /** The words after the command's name. */
  words: readonly string[];
  values: Values;
  /** Tells the audit trail what has been changed so far, for the event of a command that fails or is stopped later. */
  note: (facts: Facts) => void;
  /** For a command that must not be interrupted at any point: once it has called this, it ends itself on abort. */
  stopped: () => AbortSignal;
}

/** Fields of an audit event. */
export type Facts = Readonly<Record<string, string | number | boolean>>;

/** The result of a command. */
export interface Outcome {
  /** For `--json`. */
  result: object;
  /** For the terminal. */
  text: string;
  /** True if the command has written to standard output itself: `text` goes to standard error. */
  hasOutput?: boolean;
  /** Fields of its audit event, besides those of its arguments. */
  audited?: Facts;
  /** If false, the command ran but found or left a problem: exit code 1. */
  isWell?: boolean;
}

/** An action on an account. @returns null if there is no such account. */
export type Act = (
  prisma: PrismaClient,
  user: AccountKey,
  invocation: Pick<Invocation, 'env' | 'note' | 'values'>,
) => Promise<Outcome | null>;

/** The command did not do what the user asked for. */
export class CommandError extends Error {
  override name = 'CommandError';
  readonly facts: object;

  /** @param facts for `--json`, besides the message. */
  constructor(message: string, facts: object = {}) {
    super(message);
    this.facts = facts;
  }
}

/** The database with the service's records. */
export interface CommandDatabase {
  url: string;
  /** DATABASE_CA. */
  ca?: string | undefined;
  /** DATABASE_TIMEOUT, in milliseconds. */
  timeout: number;
}

/**
 * Runs `work` on the service's database: that of DATABASE_URL, or else the embedded one in DATA_DIR. If no service runs
 * on DATA_DIR, starts the embedded database until the work is done.
 * @throws ConfigError if production has no DATABASE_URL, EmbeddedDatabaseError
 */
export async function withDatabase<Result>(
  env: Environment,
  work: (database: CommandDatabase) => Promise<Result>,
): Promise<Result> {
  const config = loadConfig({ ...databaseVariables(env), DATA_DIR: env.DATA_DIR }, NO_HASHES);
  const { DATABASE_URL: url, DATABASE_CA: ca, DATABASE_TIMEOUT: timeout } = config;
  if (url !== undefined) return work({ url, ca, timeout });
  if (env.NODE_ENV === 'production') throw new ConfigError(['DATABASE_URL is required in production']);
  // Imported late: the production image does not contain it.
  const { joinEmbeddedPostgres } = await import('../infra/embedded/postgres.ts');
  const log = { debug: () => undefined, warn: () => undefined };
  const database = await joinEmbeddedPostgres({ dataDir: config.DATA_DIR, log });
  try {
    await migrate(database.url);
    return await work({ url: database.url, timeout });
  } finally {
    await database.stop();
  }
}

/** Like `withDatabase`, with one open connection. */
export async function withPostgres<Result>(
  env: Environment,
  work: (postgres: Postgres) => Promise<Result>,
): Promise<Result> {
  return withDatabase(env, async (database) => {
    const postgres = makePostgres({ ...database, pool: 1, observe: null });
    try {
      return await work(postgres);
    } finally {
      await postgres.close();
    }
  });
}
