import type { FeedRecord, UserStatusAt } from '../../domain/feed/ports.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { statusSince } from './rows.ts';

/** The contents of the feed's snapshots. */
export function makeFeedRecord(prisma: PrismaClient): FeedRecord {
  return {
    within: (seconds) =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<
          { isStandby: boolean; tokens: string | null; statuses: string | null }[]
        >(snapshotQuery(seconds));
        const [row] = refuseStandby(rows);
        return {
          tokens: JSON.parse(row.tokens ?? '[]') as number[],
          statuses: JSON.parse(row.statuses ?? '[]') as UserStatusAt[],
        };
      }),
  };
}

/**
 * One statement, so that no revocation moves from pending to settled unseen. Each list is one text, because a row for
 * each id would cost ten times as much. Ids are below 2^53.
 */
export function snapshotQuery(seconds: number): Prisma.Sql {
  const since = Prisma.sql`statement_timestamp() - ${seconds} * interval '1 second'`;
  return Prisma.sql`
    SELECT ${IS_STANDBY}, (
      SELECT json_agg(id ORDER BY id)::text FROM (
        SELECT id FROM tokens WHERE pending
        UNION
        SELECT id FROM tokens WHERE settled_at > ${since}
      ) AS revoked
    ) AS tokens, (
      SELECT json_agg(json_build_object('userId', id, 'status', status, 'version', version) ORDER BY id)::text
      FROM (SELECT id, version, ${statusSince(since)} AS status FROM users WHERE changed_at > ${since}) AS changed
      WHERE status <> 'created'
    ) AS statuses`;
}
