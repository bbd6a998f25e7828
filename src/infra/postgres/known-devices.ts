import type { KnownDeviceStore } from '../../domain/users/known-devices.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** Known devices per user: those with the latest logins. */
const KEPT = 20;
/** A device stays known for this long after its last login. */
const MAX_AGE = Prisma.sql`interval '90 days'`;
/** Rows per statement of a purge. */
const PAGE = 1000;

/** A column for statements on `users`: the fingerprints of the user's known devices. */
export const KNOWN_CALLERS = knownCallers(Prisma.sql`true`);

/** The same, of those that have logged in with the account's second factor. */
export const FACTOR_CALLERS = knownCallers(Prisma.sql`with_factor`);

function knownCallers(which: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`ARRAY(
    SELECT client FROM known_devices
    WHERE user_id = users.id AND last_login_at > now() - ${MAX_AGE} AND ${which}
    ORDER BY last_login_at DESC LIMIT ${KEPT}
  ) AS "knownCallers"`;
}

/** The known devices in PostgreSQL; times by its clock. */
export function makeKnownDeviceStore({ inLane }: Pick<Postgres, 'inLane'>): KnownDeviceStore {
  return {
    remember: (userId, client, withFactor) =>
      mapDatabaseErrors(() =>
        inLane(userId, 'proof', async (tx) => {
          const id = BigInt(userId);
          // Skips an account that is deleted meanwhile, and rows locked by concurrent logins at other replicas. A login with a factor waits for a removal of the factor, after which no device
          // is known by it.
          const lock = withFactor ? Prisma.sql`FOR SHARE` : Prisma.sql`FOR KEY SHARE`;
          await tx.$executeRaw`
          WITH noted AS (
            INSERT INTO known_devices (user_id, client, last_login_at, with_factor)
            SELECT id, ${client}, clock_timestamp(), ${withFactor} AND factor_since IS NOT NULL FROM users
            WHERE id = ${id} AND deleted_at IS NULL ${lock}
            ON CONFLICT (user_id, client) DO UPDATE SET
              last_login_at = excluded.last_login_at, with_factor = known_devices.with_factor OR excluded.with_factor
            RETURNING 1
          ), surplus AS (
            SELECT client FROM known_devices
            WHERE user_id = ${id} AND client IN (
              SELECT client FROM known_devices WHERE user_id = ${id} AND client <> ${client}
              ORDER BY last_login_at DESC OFFSET ${KEPT - 1}
            )
            -- Runs the insertion first, which locks the user's row as every writer does first.
            AND EXISTS (SELECT FROM noted)
            FOR UPDATE SKIP LOCKED
          )
          DELETE FROM known_devices USING surplus
          WHERE known_devices.user_id = ${id} AND known_devices.client = surplus.client`;
        }),
      ),
  };
}

/**
 * Deletes the devices that are no longer known, page by page in the order of the key.
 * @returns how many it deleted.
 * @throws AuthError `unavailable`
 */
export async function purgeKnownDevices(prisma: PrismaClient): Promise<number> {
  let purged = 0;
  let [user, client] = [0n, ''];
  for (;;) {
    const [page] = await mapDatabaseErrors(
      () => prisma.$queryRaw<{ user: bigint; client: string; count: bigint; purged: bigint }[]>`
        WITH page AS (
          SELECT user_id, client FROM known_devices
          WHERE (user_id, client) > (${user}, ${client}) ORDER BY user_id, client LIMIT ${PAGE}
        ), doomed AS (
          SELECT user_id, client FROM known_devices JOIN page USING (user_id, client)
          WHERE last_login_at <= now() - ${MAX_AGE} FOR UPDATE OF known_devices SKIP LOCKED
        ), gone AS (
          DELETE FROM known_devices USING doomed
          WHERE known_devices.user_id = doomed.user_id AND known_devices.client = doomed.client RETURNING 1
        )
        SELECT user_id AS user, client, (SELECT count(*) FROM page) AS count,
          (SELECT count(*) FROM gone) AS purged
        FROM page ORDER BY user_id DESC, client DESC LIMIT 1`,
    );
    if (!page) return purged;
    purged += Number(page.purged);
    if (Number(page.count) < PAGE) return purged;
    [user, client] = [page.user, page.client];
  }
}
