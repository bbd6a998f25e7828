import { failureOfState } from './failures.ts';

/** A migration failed. The message is for the user at the terminal and contains no password. */
export class MigrationError extends Error {
  override name = 'MigrationError';
}

/** What passes by itself, and left nothing behind: a retry may succeed. */
export class PassingFailure extends MigrationError {
  override name = 'PassingFailure';
  readonly kind: Passing;

  constructor(kind: Passing, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** A signal stopped the wait. */
export class MigrationStopped extends MigrationError {
  override name = 'MigrationStopped';

  /** @param applied the migrations that this run applied before. */
  constructor(applied: readonly string[] = []) {
    super(`stopped while waiting: ${applied.length === 0 ? 'nothing' : applied.join(', ')} was applied`);
  }
}

/** `away`: the server is down, still starting, or lost the connection. `refused`: other transactions were in the way. */
export type Passing = 'away' | 'refused';

/** Network errors of a server that is down. A container's DNS name does not resolve until the container runs. */
const AWAY = /^(E(CONNREFUSED|CONNRESET|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN)|ENOTFOUND|ENOENT)$/;

/** lock_not_available, deadlock_detected. */
const REFUSED = ['55P03', '40P01'];

/** @returns null if a retry cannot help: the server refused us for good, or the statement is wrong. */
export function passingOf(error: unknown): Passing | null {
  if (error instanceof AggregateError && error.errors.length > 0)
    return error.errors.some(isAway) ? 'away' : null;
  if (error instanceof Error && 'code' in error && REFUSED.includes(String(error.code))) return 'refused';
  return isAway(error) ? 'away' : null;
}

function isAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if ('code' in error && typeof error.code === 'string')
    return AWAY.test(error.code) || failureOfState(error.code)?.isAway === true;
  // The driver's own errors: of an attempt to connect, of a query that was running, and of the next one.
  return /timeout|Connection terminated|not queryable/i.test(error.message);
}

/** The reason from PostgreSQL or the network, in one line. Never the URL: it contains the password. */
export function reasonOf(error: unknown): string {
  // Node tries every address of a host and wraps the failures in an error without a message.
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return error.message === '' ? code : error.message;
}
