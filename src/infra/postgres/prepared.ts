import { hash } from 'node:crypto';
import pg from 'pg';
import type { Prisma } from '../../generated/prisma/client.ts';

/** A statement that is asked every minute or more: pg prepares it once on each connection, and Prisma is left out. */
export interface Prepared {
  name: string;
  text: string;
}

/**
 * Runs a prepared statement outside of a transaction. Rows have the types that Prisma gives them.
 * @throws the driver's error: see `mapDatabaseErrors`
 */
export type RunPrepared = <Row extends object>(
  statement: Prepared,
  values: readonly unknown[],
) => Promise<Row[]>;

/** @param text with `$1` and so on. Its hash is in the name, so no two texts have one name, also of other releases. */
export function prepare(text: string): Prepared {
  return { name: `latchkey_${hash('sha256', text).slice(0, 16)}`, text };
}

/**
 * What a server connection answers that does not know our name, that knows it from another client, or whose prepared
 * statement is older than a migration. Nothing has run then.
 */
const NOT_PREPARED: ReadonlySet<unknown> = new Set(['26000', '42P05', '0A000']);

/** The type `bigint`, which pg reads as a text. */
const INT8 = 20;

// pg's own types name few of the types.
const parserOf = pg.types.getTypeParser as (oid: number, format?: string) => unknown;
const types = {
  getTypeParser: (oid: number, format?: string) => (oid === INT8 ? BigInt : parserOf(oid, format)),
} as pg.CustomTypesConfig;

/** Runs statements in a transaction of Prisma's, which gives them no name. */
export function inTransaction(tx: Pick<Prisma.TransactionClient, '$queryRawUnsafe'>): RunPrepared {
  return ({ text }, values) => tx.$queryRawUnsafe(text, ...values);
}

/**
 * A PgBouncer before 1.21 in transaction mode gives each statement another server connection, and knows nothing of
 * names. The first answer that shows it ends the names for this process.
 */
export function makeRunPrepared(pool: Pick<pg.Pool, 'query'>): RunPrepared {
  let isNamed = true;
  return async <Row extends object>({ name, text }: Prepared, values: readonly unknown[]) => {
    const unnamed = { text, values: [...values], types };
    if (!isNamed) return (await pool.query<Row>(unnamed)).rows;
    try {
      return (await pool.query<Row>({ ...unnamed, name })).rows;
    } catch (error) {
      if (!NOT_PREPARED.has((error as { code?: unknown }).code)) throw error;
      isNamed = false;
      return (await pool.query<Row>(unnamed)).rows;
    }
  };
}
