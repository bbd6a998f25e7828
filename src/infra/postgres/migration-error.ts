/** A migration could not be done; the message is for the person at the terminal and holds no password. */
export class MigrationError extends Error {
  override name = 'MigrationError';
}

/** What PostgreSQL or the network said, in one line. Never the URL: it holds the password. */
export function reasonOf(error: unknown): string {
  // Node tries every address of a host and wraps the failures in an error without a message.
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0]);
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  return error.message === '' ? code : error.message;
}
