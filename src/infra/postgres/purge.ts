import type { PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

export interface PurgeOptions {
  /** Deletes sessions whose newest generation (µs) is older. */
  unusedSince: number;
  /** Deletes records revoked before (ms since 1970), if their tombstone has been set. */
  revokedBefore: number;
  /** Deletes long-lived tokens that expired before (ms since 1970). */
  expiredBefore: number;
}

/** Rows per transaction. */
const PAGE = 1000;
/** An arbitrary id that no other advisory lock uses. */
const LOCK = 4_117_200_902;

/**
 * Deletes the records that are no longer needed, page by page in the order of ids. Skips locked rows, so that it delays
 * no request for long, and needs no index of its own.
 * @returns how many it deleted; null if another purge is running.
 * @throws AuthError `unavailable`
 */
export async function purge(
  prisma: PrismaClient,
  { unusedSince, revokedBefore, expiredBefore }: PurgeOptions,
): Promise<number | null> {
  let purged = 0;
  let after = 0n;
  for (;;) {
    const page = await mapDatabaseErrors(() =>
      prisma.$transaction(async (tx) => {
        // A transaction lock: behind a pooler, a session lock would be lost.
        const [lock] = await tx.$queryRaw<
          { held: boolean }[]
        >`SELECT pg_try_advisory_xact_lock(${LOCK}) AS held`;
        if (!lock?.held) return null;
        const [seen] = await tx.$queryRaw<{ last: bigint | null; count: bigint; purged: bigint }[]>`
          WITH page AS (
            SELECT id FROM tokens WHERE id > ${after} ORDER BY id LIMIT ${PAGE}
          ), doomed AS (
            SELECT tokens.id FROM tokens JOIN page USING (id)
            WHERE NOT tokens.pending
              AND ((tokens.type = 'session' AND tokens.latest < ${BigInt(unusedSince)})
                OR tokens.revoked_at < ${new Date(revokedBefore)}
                OR tokens.expires_at < ${new Date(expiredBefore)})
            FOR UPDATE OF tokens SKIP LOCKED
          ), gone AS (DELETE FROM tokens USING doomed WHERE tokens.id = doomed.id RETURNING 1)
          SELECT max(id) AS last, count(*) AS count, (SELECT count(*) FROM gone) AS purged FROM page`;
        return seen ?? null;
      }),
    );
    if (page === null) return purged > 0 ? purged : null;
    purged += Number(page.purged);
    if (page.last === null || Number(page.count) < PAGE) return purged;
    after = page.last;
  }
}

/**
 * Deletes the rows of deleted accounts without a token row, page by page.
 * @param deletedBefore milliseconds since 1970: by now, fast store and feed need the row no more.
 * @throws AuthError `unavailable`
 */
export async function purgeDeletedUsers(prisma: PrismaClient, deletedBefore: number): Promise<void> {
  for (let deleted = PAGE; deleted === PAGE;) {
    deleted = await mapDatabaseErrors(
      () => prisma.$executeRaw`
        DELETE FROM users WHERE id IN (
          SELECT id FROM users
          WHERE deleted_at < ${new Date(deletedBefore)}
            AND NOT EXISTS (SELECT FROM tokens WHERE tokens.user_id = users.id)
          ORDER BY id LIMIT ${PAGE} FOR UPDATE SKIP LOCKED)`,
    );
  }
}

/**
 * Deletes second factors that were set up more than a day ago, and never confirmed.
 * @throws AuthError `unavailable`
 */
export async function purgeSetUps(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$executeRaw`
      DELETE FROM factors WHERE id IN (
        SELECT id FROM factors WHERE confirmed_at IS NULL AND created_at < now() - interval '1 day'
        FOR UPDATE SKIP LOCKED)`,
  );
}
