import type { Pool } from 'pg';
import { skeletonOf } from '../../src/domain/users/confusables.ts';
import { EMAIL_DOMAIN } from '../../packages/load/src/accounts.ts';
import { LoadError } from '../../packages/load/src/load-error.ts';
import { seededAccount } from './seeded-accounts.ts';

/** Rows of one statement. */
const BATCH = 5000;

const INSERT = `
  INSERT INTO users (username, username_skeleton, name, email, password_hash)
  SELECT username, skeleton, name, email, $5
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS seeded (username, skeleton, name, email)
  ON CONFLICT DO NOTHING`;

/**
 * Adds the first `users` seeded users; those that exist stay. All have one password, so one hash serves all.
 * @param hash of PASSWORD, at the cost of the service: a login with another cost would compute a second hash.
 * @returns how many were added.
 * @throws LoadError if the database holds a user who is not the kit's
 */
export async function seedUsers(
  pool: Pool,
  { users, hash, progress }: { users: number; hash: Uint8Array; progress: (done: number) => void },
): Promise<number> {
  await refuseOtherUsers(pool);
  let added = 0;
  for (let from = 0; from < users; from += BATCH) {
    const batch = Array.from({ length: Math.min(BATCH, users - from) }, (_, i) => seededAccount(from + i));
    const { rowCount } = await pool.query(INSERT, [
      batch.map(({ username }) => username),
      batch.map(({ username }) => skeletonOf(username)),
      batch.map(({ name }) => name),
      batch.map(({ email }) => email),
      Buffer.from(hash),
    ]);
    added += rowCount ?? 0;
    progress(from + batch.length);
  }
  // The planner's statistics are of an empty table.
  if (added > 0) await pool.query('ANALYZE users');
  return added;
}

async function refuseOtherUsers(pool: Pool): Promise<void> {
  const { rowCount } = await pool.query('SELECT 1 FROM users WHERE email NOT LIKE $1 LIMIT 1', [
    `%@${EMAIL_DOMAIN}`,
  ]);
  if (rowCount)
    throw new LoadError(`the database holds users other than those of the load test: use one of its own`);
}
