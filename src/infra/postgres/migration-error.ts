import { failureOfState } from './failures.ts';

/** A migration failed. The message is for the user at the terminal and contains no password. */
export class MigrationError extends Error {
  override name = 'MigrationError';
}

/** The server is down or still starting: a retry may succeed. */
export class DatabaseAway extends MigrationError {
  override name = 'DatabaseAway';
}

/** A signal stopped the wait before anything was changed. */
export class MigrationStopped extends MigrationError {
  override name = 'MigrationStopped';

  constructor() {
    super('stopped while waiting: nothing was applied');
  }
}

/** Network errors of a server that is down. A container's DNS name does not resolve until the container runs. */
const AWAY = /^(E(CONNREFUSED|CONNRESET|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN)|ENOTFOUND|ENOENT)$/;

/** Whether a connection failed because the server was down, not because it refused us. */
export function isAway(error: unknown): boolean {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.some(isAway);
  if (!(error instanceof Error)) return false;
  if ('code' in error && typeof error.code === 'string')
    return AWAY.test(error.code) || failureOfState(error.code)?.isAway === true;
  return /timeout|Connection terminated/i.test(error.message);
}

/** The reason from PostgreSQL or the network, in one line. Never the URL: it contains the password. */
export function reasonOf(error: unknown): string {
  // Node tries every address of a host and wraps the failures in an error without a message.
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return error.message === '' ? code : error.message;
}
