/** A migration could not be done; the message is for the person at the terminal and holds no password. */
export class MigrationError extends Error {
  override name = 'MigrationError';
}

/** The server is not there, or not there yet: another try may find it. */
export class DatabaseAway extends MigrationError {
  override name = 'DatabaseAway';
}

/** It was stopped before it had begun to change anything. */
export class MigrationStopped extends MigrationError {
  override name = 'MigrationStopped';

  constructor() {
    super('stopped while it waited: nothing was applied');
  }
}

/**
 * SQLSTATEs of a server that starts, stops or has no connection left, and what the network says of one that is away.
 * A name is looked up in vain until the service that has it starts.
 */
const AWAY =
  /^(57P0[123]|53300|08\w{3}|E(CONNREFUSED|CONNRESET|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|AI_AGAIN)|ENOTFOUND|ENOENT)$/;

/** Whether a connection failed because nobody was there, not because we were turned away. */
export function isAway(error: unknown): boolean {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.some(isAway);
  if (!(error instanceof Error)) return false;
  if ('code' in error && typeof error.code === 'string') return AWAY.test(error.code);
  return /timeout|Connection terminated/i.test(error.message);
}

/** What PostgreSQL or the network said, in one line. Never the URL: it holds the password. */
export function reasonOf(error: unknown): string {
  // Node tries every address of a host and wraps the failures in an error without a message.
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return error.message === '' ? code : error.message;
}
