import type { PrismaClient } from '../../generated/prisma/client.ts';
import { orAuthError } from './errors.ts';

export interface PurgeOptions {
  /** Sessions whose newest generation (µs) is older go. */
  unusedSince: number;
  /** Records revoked before (ms since 1970) go, once their tombstone has been set. */
  revokedBefore: number;
}

/** Rows looked at in one transaction. */
const PAGE = 1000;
/** Any number that nobody else uses. */
const LOCK = 4_117_200_902;

/**
 * Deletes the records that nobody will ask for again: page by page in the order of ids, passing over rows that are in
 * use, so that it holds nothing up for long and needs no index of its own.
 * @returns how many went; null when another purge is at work.
 * @throws AuthError `unavailable`
 */
export async function purge(
  prisma: PrismaClient,
  { unusedSince, revokedBefore }: PurgeOptions,
): Promise<number | null> {
  let purged = 0;
  let after = 0n;
  for (;;) {
    const page = await orAuthError(() =>
      prisma.$transaction(async (tx) => {
        // One for the transaction: a lock of the session would be lost behind a pooler.
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
                OR tokens.revoked_at < ${new Date(revokedBefore)})
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
