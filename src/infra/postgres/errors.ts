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

/** PostgreSQL's error classes of the same: connection, resources, intervention, system, and a read-only server. */
const OUTAGE_STATES = /^(08|53|57|58|40|25006|55P03)/;

/**
 * Names the failures that the domain knows; every other one is a fault of ours and goes through as it is.
 * @param unique which code a duplicate stands for, by the name of the constraint.
 * @throws AuthError `unavailable`, or a code of `unique`
 */
export async function orAuthError<Result>(
  work: () => Promise<Result>,
  unique: Record<string, ErrorCode> = {},
): Promise<Result> {
  try {
    return await work();
  } catch (cause) {
    const code = unique[duplicateOf(cause) ?? ''];
    if (code) throw new AuthError(code, { cause });
    throw isOutage(cause) ? new AuthError('unavailable', { cause }) : cause;
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

function isOutage(error: unknown): boolean {
  if (error instanceof Prisma.PrismaClientInitializationError) return true;
  if (error instanceof Prisma.PrismaClientKnownRequestError && OUTAGES.has(error.code)) return true;
  return hasOutageState(error);
}

/** Looks through the wrapped errors for the driver's own code. */
function hasOutageState(error: unknown, depth = 0): boolean {
  if (depth > 4 || typeof error !== 'object' || error === null) return false;
  const { code, originalCode, message, cause, meta } = error as Record<string, unknown>;
  for (const state of [code, originalCode]) {
    if (typeof state === 'string' && (OUTAGE_STATES.test(state) || /^E[A-Z]+$/.test(state))) return true;
  }
  if (
    typeof message === 'string' &&
    /timeout|Connection terminated|connection.*(closed|ended|error)|not queryable|calling end on the pool/i.test(
      message,
    )
  )
    return true;
  const adapterError = (meta as Record<string, unknown> | undefined)?.driverAdapterError;
  return hasOutageState(cause, depth + 1) || hasOutageState(adapterError, depth + 1);
}
