import type { RevokedTokens } from '../../domain/feed/ports.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { IS_STANDBY, orAuthError, refuseStandby } from './errors.ts';

/** What the feed's snapshots are made of: one statement, so that no revocation slips from pending to settled unseen. */
export function makeRevokedTokens(prisma: PrismaClient): RevokedTokens {
  return {
    within: (seconds) =>
      orAuthError(async () => {
        // As one text: a row for each would cost ten times as much. Ids are below 2^53.
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
