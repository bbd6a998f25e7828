import { AuthError, type ErrorCode } from '../../domain/errors.ts';
import { Prisma } from '../../generated/prisma/client.ts';

/** Prisma's codes of a database that is away, full, slow or in the middle of a failover. */
const OUTAGES = new Set([
  'P1000',
  'P1001',
  'P1002',
  'P1003',
  'P1008',
  'P1010',
  'P1011',
  'P1017',
  'P2024',
  'P2028',
  'P2034',
  'P2037',
]);

/**
 * PostgreSQL's error classes of the same: connection, resources, intervention, system, and single states: a read-only
 * server, a lock that nobody gave back, and a transaction or its pause that took longer than the server allows.
 */
const OUTAGE_STATES = /^(08|53|57|58|40|25006|25P03|25P04|55P03)/;

/** What the driver adapter calls them where a raw statement meets them: Prisma then has one code for all, P2010. */
const OUTAGE_KINDS = new Set([
  'DatabaseNotReachable',
  'DatabaseDoesNotExist',
  'DatabaseAccessDenied',
  'AuthenticationFailed',
  'ConnectionClosed',
  'SocketTimeout',
  'TlsConnectionError',
  'TooManyConnections',
]);

/**
 * A column of a statement whose answer counts for what it lacks, too: a standby, or a primary that was replaced, may not
 * know it yet. The statement has a row in any case (see `refuseStandby`).
 */
export const IS_STANDBY = Prisma.sql`current_setting('transaction_read_only') = 'on' AS "isStandby"`;

/** @throws AuthError `unavailable` */
export function refuseStandby<Row extends { isStandby: boolean }>(rows: Row[]): [Row, ...Row[]] {
  const [first, ...rest] = rows;
  if (!first || first.isStandby) throw new AuthError('unavailable');
  return [first, ...rest];
}

/** Two transactions stood in each other's way, and this one was given up: deadlock, serialization failure. */
const CONFLICT_STATES = /^40(001|P01)$/;
const CONFLICT = 'P2034';

/** In all; after the second conflict in a row something else is wrong. */
const MAX_TRIES = 3;
/** The longest wait before another try, in milliseconds: whoever stood in the way should be through by then. */
const MAX_PAUSE = 50;

/**
 * Does a piece of work that commits as a whole or not at all: again where a conflict undid it. Names the failures that
 * the domain knows; every other one is a fault of ours and goes through as it is.
 * @param unique which code a duplicate stands for, by the name of the constraint.
 * @throws AuthError `unavailable`, or a code of `unique`
 */
export async function orAuthError<Result>(
  work: () => Promise<Result>,
  unique: Record<string, ErrorCode> = {},
): Promise<Result> {
  try {
    return await withRetries(work);
  } catch (cause) {
    const code = unique[duplicateOf(cause) ?? ''];
    if (code) throw new AuthError(code, { cause });
    throw isOutage(cause) ? new AuthError('unavailable', { cause }) : cause;
  }
}

async function withRetries<Result>(work: () => Promise<Result>): Promise<Result> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === MAX_TRIES || !isConflict(error)) throw error;
    }
    // At random, or the two would meet again.
    await new Promise((resolve) => setTimeout(resolve, Math.random() * MAX_PAUSE));
  }
}

/** Which unique constraint was hit. */
function duplicateOf(error: unknown): string | undefined {
  if (!(error instanceof Prisma.PrismaClientKnownRequestError) || error.code !== 'P2002') return undefined;
  const adapterError = error.meta?.driverAdapterError as
    { cause?: { constraint?: { fields?: string[]; index?: string } } } | undefined;
  const constraint = adapterError?.cause?.constraint;
  return constraint?.index ?? constraint?.fields?.join();
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

/** The error and those that it wraps, the driver's own among them. */
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
    if (typeof state === 'string' && (OUTAGE_STATES.test(state) || /^E[A-Z]+$/.test(state))) return true;
  }
  return (
    typeof message === 'string' &&
    /timeout|Connection terminated|connection.*(closed|ended|error)|not queryable|calling end on the pool/i.test(
      message,
    )
  );
}
