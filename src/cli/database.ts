import { ConfigError, DATABASE_SETTINGS, loadSettings } from '../config/config.ts';
import { readVariable, type Environment } from '../config/environment.ts';
import { makePostgres, type Postgres } from '../infra/postgres/client.ts';
import { migrate } from '../infra/postgres/migrate.ts';

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
  const config = loadSettings(env, ...DATABASE_SETTINGS, 'DATA_DIR');
  const { DATABASE_URL: url, DATABASE_CA: ca, DATABASE_TIMEOUT: timeout } = config;
  if (url !== undefined) return work({ url, ca, timeout });
  if (readVariable(env, 'NODE_ENV') === 'production')
    throw new ConfigError(['DATABASE_URL is required in production']);
  // Imported late: its packages are optional, and the image has none of them.
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
