import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { migrate, MigrationError } from '../infra/postgres/migrate.ts';
import { StartError } from '../runtime/start-error.ts';

/** The database to use: the given one, or the embedded one, started and migrated. */
export interface Database {
  url: string;
  stop(): Promise<void>;
}

/**
 * @param onExit called if the embedded database exits unexpectedly: the service cannot run without it.
 * @throws StartError
 */
export async function openDatabase(config: Config, logger: Logger, onExit: () => void): Promise<Database> {
  if (config.DATABASE_URL !== undefined) return { url: config.DATABASE_URL, stop: () => Promise.resolve() };
  // Imported only here: its packages are optional, and the image has none of them.
  const { startEmbeddedPostgres, EmbeddedDatabaseError } = await import('../infra/embedded/postgres.ts');
  try {
    const database = await startEmbeddedPostgres({
      dataDir: config.DATA_DIR,
      log: logger,
      onExit: (reason) => {
        logger.fatal({ reason }, 'the embedded PostgreSQL has ended');
        onExit();
      },
    });
    const { applied } = await migrate(database.url);
    if (applied.length > 0) logger.info({ applied }, 'migrated the embedded database');
    return database;
  } catch (error) {
    if (error instanceof EmbeddedDatabaseError || error instanceof MigrationError)
      throw new StartError(error.message);
    throw error;
  }
}
