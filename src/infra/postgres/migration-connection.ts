import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { parseIntoClientConfig } from 'pg-connection-string';
import { PrismaPg } from '@prisma/adapter-pg';
import type {
  SqlDriverAdapter,
  SqlMigrationAwareDriverAdapterFactory,
  SqlQuery,
} from '@prisma/driver-adapter-utils';
import { CatalogClient, inPostgresWords, withCharacters } from './catalog-client.ts';
import { DatabaseAway, isAway, MigrationError, reasonOf } from './migration-error.ts';
import { prismaLock } from './migration-lock.ts';

/** Milliseconds until an unanswered connection attempt is given up. */
const connectTimeout = 10_000;

const engineLock = `SELECT pg_advisory_lock(${prismaLock})`;

/** A database as the driver wants it: in fields. */
export type Target = pg.ClientConfig;

/**
 * Splits a database URL into fields. Throws MigrationError if it is no URL.
 * Fields, since a `connectionString` would win over `database` and make the shadow database the real one.
 */
export function parseTarget(databaseUrl: string): Target {
  try {
    return { ...parseIntoClientConfig(databaseUrl), connectionTimeoutMillis: connectTimeout };
  } catch {
    throw new MigrationError('DATABASE_URL is not a URL like postgresql://user:password@host:5432/database');
  }
}

/** Opens one connection. Throws MigrationError (DatabaseAway where another try may help) which names the server, the reason, and no password. */
export async function connectTo(target: Target): Promise<pg.Client> {
  const client = new pg.Client(target);
  // Without a listener, a connection lost between two queries would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return client;
  } catch (error) {
    const where = `${client.database ?? ''} at ${client.host}:${client.port}`;
    const Failure = isAway(error) ? DatabaseAway : MigrationError;
    throw new Failure(`cannot connect to the database ${where}: ${reasonOf(error)}`);
  }
}

/**
 * The engine's way to the database, and to the shadow database in which it replays migrations.
 * `close` ends what the engine left open.
 */
export class MigrationConnections implements SqlMigrationAwareDriverAdapterFactory {
  readonly provider = 'postgres';
  readonly adapterName = '@prisma/adapter-pg';
  readonly #target: Target;
  readonly #open: SqlDriverAdapter[] = [];

  constructor(target: Target) {
    this.#target = target;
  }

  async connect(): Promise<SqlDriverAdapter> {
    const adapter = await this.#adapter(this.#target);
    return this.#track(adapter, () => adapter.dispose());
  }

  async connectToShadowDb(): Promise<SqlDriverAdapter> {
    const database = `prisma_migrate_shadow_db_${randomUUID()}`;
    await this.#administer(`CREATE DATABASE "${database}"`);
    const adapter = await this.#adapter({ ...this.#target, database });
    return this.#track(adapter, async () => {
      // In this order: PostgreSQL drops no database that is in use.
      await adapter.dispose();
      await this.#administer(`DROP DATABASE IF EXISTS "${database}" WITH (FORCE)`);
    });
  }

  async close(): Promise<void> {
    for (const adapter of this.#open.splice(0)) await adapter.dispose();
  }

  async #adapter(target: Target): Promise<SqlDriverAdapter> {
    // One connection that is never idle for too long: the engine counts on one session.
    const pool = new pg.Pool({ ...target, max: 1, idleTimeoutMillis: 0, Client: CatalogClient });
    return new PrismaPg(pool, { disposeExternalPool: true }).connect();
  }

  #track(adapter: SqlDriverAdapter, dispose: () => Promise<void>): SqlDriverAdapter {
    let disposed: Promise<void> | undefined;
    const tracked = Object.create(adapter, {
      // The adapter splits a script at every semicolon, also inside functions and texts, and so would
      // apply half of it. Without arguments PostgreSQL takes the whole of it, as one transaction.
      executeScript: {
        value: async (sql: string) => {
          await adapter.executeRaw({ sql, args: [], argTypes: [] }).catch(inPostgresWords);
        },
      },
      queryRaw: {
        value: async (query: SqlQuery) => withCharacters(await adapter.queryRaw(query)),
      },
      // migration-lock.ts holds this very lock already, and the engine would wait for us forever.
      executeRaw: {
        value: async (query: SqlQuery) => (query.sql === engineLock ? 0 : adapter.executeRaw(query)),
      },
      dispose: { value: () => (disposed ??= dispose()) },
    }) as SqlDriverAdapter;
    this.#open.push(tracked);
    return tracked;
  }

  async #administer(sql: string): Promise<void> {
    const client = await connectTo(this.#target);
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  }
}
