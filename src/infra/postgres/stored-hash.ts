import { Prisma } from '../../generated/prisma/client.ts';

/**
 * Whether a row's imported hash is the account's: password_hash then holds a hash that nothing opens, whose salt (bytes
 * 17 to 48) is the SHA-256 of the imported one. Each write to password_hash ends it, so no writer has to know of it.
 */
export const IMPORTED_COUNTS = Prisma.sql`(
  substring(password_hash FROM 17 FOR 32) = sha256(convert_to(imported_hash, 'UTF8'))) IS TRUE`;

/** The bytes to check a password against: a hash of ours, or the text of another system's. */
export const STORED_HASH = Prisma.sql`CASE WHEN ${IMPORTED_COUNTS}
  THEN convert_to(imported_hash, 'UTF8') ELSE password_hash END`;
