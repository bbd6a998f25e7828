import { AuthError } from '../../domain/errors.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { asStoreError } from './cause.ts';
import { CONFLICTS, DUPLICATES, failureOfState, PRISMA_OUTAGES } from './failures.ts';

/** Node's codes of errors of the network and of certificates. */
const NETWORK_CODES = /^(E[A-Z]+|EAI_\w+|ERR_(TLS|SSL)_\w+|(CERT|SELF_SIGNED|UNABLE_TO|DEPTH_ZERO)_\w+)$/;

/** Errors of the driver and its pool that have no code. */
const OUTAGE_MESSAGES =
  /timeout|Connection terminated|connection.*(closed|ended|error)|not queryable|calling end on the pool/i;

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

/**
 * The rows of a statement whose missing rows matter, in the order of their ids.
 * @throws AuthError `unavailable` on a standby
 */
export async function onPrimary<Row extends { id: bigint }>(
  prisma: Pick<PrismaClient, '$queryRaw'>,
  statement: Prisma.Sql,
): Promise<Row[]> {
  type Found = { isStandby: boolean } & (Row | { [Name in keyof Row]: null });
  const rows = await prisma.$queryRaw<Found[]>`
    SELECT ${IS_STANDBY}, found.* FROM (SELECT) AS one LEFT JOIN (${statement}) AS found ON true ORDER BY id`;
  return refuseStandby(rows).flatMap(({ isStandby: _, ...row }) =>
    row.id === null ? [] : [row as unknown as Row],
  );
}

/**
 * For reads of Prisma's query builder, which takes no such column: a transaction stays on one connection.
 * @throws AuthError `unavailable`
 */
export async function readPrimary<Result>(
  prisma: PrismaClient,
  read: Prisma.PrismaPromise<Result>,
): Promise<Result> {
  const asked = prisma.$queryRaw<{ isStandby: boolean }[]>`SELECT ${IS_STANDBY}`;
  const [rows, result] = await prisma.$transaction([asked, read]);
  refuseStandby(rows);
  return result;
}

/** Including the first; after several conflicts in a row, something else is wrong. */
const MAX_TRIES = 3;
/** The longest wait before a retry, in milliseconds: the other transaction should be done by then. */
const MAX_PAUSE = 50;

/**
 * Runs `work`, which must commit as a whole or not at all, and retries it after a conflict. Translates the failures
 * that the domain knows. Any other failure is a bug or a duplicate, and passes unchanged.
 * @throws AuthError `unavailable`
 */
export async function mapDatabaseErrors<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await withRetries(work);
  } catch (cause) {
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

/** The violated unique constraint of a statement, raw or not, by its name or its columns. */
export function duplicateOf(error: unknown): string | undefined {
  if (!isDuplicate(error)) return undefined;
  const named = causesOf(error).find(
    ({ constraint }) => typeof constraint === 'object' && constraint !== null,
  );
  const constraint = named?.constraint as { fields?: string[]; index?: string } | undefined;
  return constraint?.index ?? constraint?.fields?.join();
}

/** Whether a statement, raw or not, violated a unique constraint. */
function isDuplicate(error: unknown): boolean {
  return codesOf(error).some((code) => DUPLICATES.has(code));
}

function isConflict(error: unknown): boolean {
  return codesOf(error).some((code) => CONFLICTS.has(code));
}

function isOutage(error: unknown): boolean {
  if (error instanceof Prisma.PrismaClientInitializationError) return true;
  return (
    codesOf(error).some((code) => failureOfState(code)?.isOutage ?? isNetworkOrPrisma(code)) ||
    causesOf(error).some(({ message }) => typeof message === 'string' && OUTAGE_MESSAGES.test(message))
  );
}

function isNetworkOrPrisma(code: string): boolean {
  return PRISMA_OUTAGES.has(code) || NETWORK_CODES.test(code);
}

/** The codes of the error and of all errors that it wraps: of PostgreSQL, Prisma, its adapter and Node. */
function codesOf(error: unknown): string[] {
  return causesOf(error)
    .flatMap(({ code, originalCode, kind }) => [code, originalCode, kind])
    .filter((code) => typeof code === 'string');
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
