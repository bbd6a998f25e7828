import type { RevokedTokens } from '../../domain/feed/ports.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';

/** The contents of the feed's snapshots. One statement, so that no revocation moves from pending to settled unseen. */
export function makeRevokedTokens(prisma: PrismaClient): RevokedTokens {
  return {
    within: (seconds) =>
      mapDatabaseErrors(async () => {
        // As one text, because a row for each id would cost ten times as much. Ids are below 2^53.
        const rows = await prisma.$queryRaw<{ isStandby: boolean; ids: string | null }[]>`
          SELECT ${IS_STANDBY}, json_agg(id ORDER BY id)::text AS ids FROM (
            SELECT id FROM tokens WHERE pending
            UNION
            SELECT id FROM tokens WHERE settled_at > statement_timestamp() - ${seconds} * interval '1 second'
          ) AS revoked`;
        const [row] = refuseStandby(rows);
        return JSON.parse(row.ids ?? '[]') as number[];
      }),
  };
}
