import { AuthError, type ErrorCode } from '../../domain/errors.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import { asStoreError } from './cause.ts';

/** Prisma's codes for a database that is down, full, slow, in a failover, or not migrated. */
const OUTAGES = new Set([
  'P1000',
  'P1001',
  'P1002',
  'P1003',
  'P1008',
  'P1010',
  'P1011',
  'P1017',
  'P2021',
  'P2022',
  'P2024',
  'P2028',
  'P2034',
  'P2037',
]);

/**
 * PostgreSQL's error classes for the same: connection, resources, intervention, system, rollback and a refused user.
 * Single states: a read-only server, a lock not available in time, a transaction or its idle time over the server's
 * limit, an unknown database, schema, table or column, and a role without the rights that it needs.
 */
const OUTAGE_STATES = /^(08|28|53|57|58|40|25006|25P03|25P04|55P03|3D000|3F000|42P01|42703|42501)/;

/** Node's codes of errors of the network and of certificates. */
const NETWORK_CODES = /^(E[A-Z]+|EAI_\w+|ERR_(TLS|SSL)_\w+|(CERT|SELF_SIGNED|UNABLE_TO|DEPTH_ZERO)_\w+)$/;

/** The driver adapter's names for the same in a raw statement, for which Prisma has only one code: P2010. */
const OUTAGE_KINDS = new Set([
  'DatabaseNotReachable',
  'DatabaseDoesNotExist',
  'DatabaseAccessDenied',
  'AuthenticationFailed',
  'ConnectionClosed',
  'ColumnNotFound',
  'SocketTimeout',
  'TableDoesNotExist',
  'TlsConnectionError',
  'TooManyConnections',
]);

/**
 * A column for statements whose missing rows matter: a standby, or a primary that was replaced, may lack them. The
 * statement must always return a row (see `refuseStandby`).
 */
export const IS_STANDBY = Prisma.sql`current_setting('transaction_read_only') = 'on' AS "isStandby"`;

/** @throws AuthError `unavailable` */
export function refuseStandby<Row extends { isStandby: boolean }>(rows: Row[]): [Row, ...Row[]] {
  const [first, ...rest] = rows;
  if (!first || first.isStandby) throw new AuthError('unavailable');
  return [first, ...rest];
}

/** Two transactions conflicted, and the server rolled this one back: deadlock or serialization failure. */
const CONFLICT_STATES = /^40(001|P01)$/;
const CONFLICT = 'P2034';

/** Including the first; after several conflicts in a row, something else is wrong. */
const MAX_TRIES = 3;
/** The longest wait before a retry, in milliseconds: the other transaction should be done by then. */
const MAX_PAUSE = 50;

/**
 * Runs `work`, which must commit as a whole or not at all, and retries it after a conflict. Translates the failures
 * that the domain knows. Any other failure is a bug, and passes unchanged.
 * @param unique the error code of a duplicate, by the name of the constraint.
 * @throws AuthError `unavailable`, or a code of `unique`
 */
export async function mapDatabaseErrors<Result>(
  work: () => Promise<Result>,
  unique: Record<string, ErrorCode> = {},
): Promise<Result> {
  try {
    return await withRetries(work);
  } catch (cause) {
    const code = unique[duplicateOf(cause) ?? ''];
    if (code) throw new AuthError(code, { cause });
    throw isOutage(cause)
      ? new AuthError('unavailable', { cause: asStoreError(causesOf(cause), cause) })
      : cause;
  }
}

async function withRetries<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === MAX_TRIES || !isConflict(error)) throw error;
    }
    // Jitter, or the two would conflict again.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * MAX_PAUSE));
  }
}

/** The violated unique constraint of a statement, raw or not. */
function duplicateOf(error: unknown): string | undefined {
  if (!isDuplicate(error)) return undefined;
  const named = causesOf(error).find(
    ({ constraint }) => typeof constraint === 'object' && constraint !== null,
  );
  const constraint = named?.constraint as { fields?: string[]; index?: string } | undefined;
  return constraint?.index ?? constraint?.fields?.join();
}

/** Whether a statement, raw or not, violated a unique constraint. */
export function isDuplicate(error: unknown): boolean {
  return causesOf(error).some(
    ({ code, originalCode }) => code === 'P2002' || [code, originalCode].includes('23505'),
  );
}

function isConflict(error: unknown): boolean {
  if (error instanceof Prisma.PrismaClientKnownRequestError && error.code === CONFLICT) return true;
  return causesOf(error).some(({ code, originalCode }) =>
    [code, originalCode].some((state) => typeof state === 'string' && CONFLICT_STATES.test(state)),
  );
}

function isOutage(error: unknown): boolean {
  if (error instanceof Prisma.PrismaClientInitializationError) return true;
  if (error instanceof Prisma.PrismaClientKnownRequestError && OUTAGES.has(error.code)) return true;
  return causesOf(error).some(isOutageItself);
}

/** The error and all errors that it wraps, including the driver's. */
function causesOf(error: unknown, depth = 0): Record<string, unknown>[] {
  if (depth > 4 || typeof error !== 'object' || error === null) return [];
  const { cause, meta } = error as Record<string, unknown>;
  const adapterError = (meta as Record<string, unknown> | undefined)?.driverAdapterError;
  return [
    error as Record<string, unknown>,
    ...causesOf(cause, depth + 1),
    ...causesOf(adapterError, depth + 1),
  ];
}

function isOutageItself({ code, originalCode, kind, message }: Record<string, unknown>): boolean {
  if (typeof kind === 'string' && OUTAGE_KINDS.has(kind)) return true;
  for (const state of [code, originalCode]) {
    if (typeof state === 'string' && (OUTAGE_STATES.test(state) || NETWORK_CODES.test(state))) return true;
  }
  return (
    typeof message === 'string' &&
    /timeout|Connection terminated|connection.*(closed|ended|error)|not queryable|calling end on the pool/i.test(
      message,
    )
  );
}
