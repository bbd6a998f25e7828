/** The embedded PostgreSQL cannot do its work; the message tells the person at the terminal what to do. */
export class EmbeddedDatabaseError extends Error {
  override name = 'EmbeddedDatabaseError';
}

/** What was thrown, in one line. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
