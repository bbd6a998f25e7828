/** The embedded PostgreSQL failed. The message tells the user at the terminal what to do. */
export class EmbeddedDatabaseError extends Error {
  override name = 'EmbeddedDatabaseError';
}

/** The message of a thrown value, in one line. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Another live process runs the database of this data folder. */
export class DataFolderInUseError extends EmbeddedDatabaseError {}
