import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
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

/**
 * Makes the device of a login known to its account, in the transaction that opens the session, which has locked or added
 * the user's row. A device without a fingerprint stays unknown.
 * @param withFactor whether the login took the account's second factor.
 */
export async function rememberDevice(
  tx: Prisma.TransactionClient,
  userId: number,
  client: string,
  withFactor: boolean,
): Promise<void> {
  if (client === '') return;
  const id = BigInt(userId);
  // Skips surplus rows that a replica of 1.0.0 holds, which locks them without the user's.
  await tx.$executeRaw`
    WITH noted AS (
      INSERT INTO known_devices (user_id, client, last_login_at, with_factor)
      VALUES (${id}, ${client}, clock_timestamp(), ${withFactor})
      ON CONFLICT (user_id, client) DO UPDATE SET
        last_login_at = excluded.last_login_at, with_factor = known_devices.with_factor OR excluded.with_factor
    ), surplus AS (
      SELECT client FROM known_devices
      WHERE user_id = ${id} AND client IN (
        SELECT client FROM known_devices WHERE user_id = ${id} AND client <> ${client}
        ORDER BY last_login_at DESC OFFSET ${KEPT - 1}
      )
      FOR UPDATE SKIP LOCKED
    )
    DELETE FROM known_devices USING surplus
    WHERE known_devices.user_id = ${id} AND known_devices.client = surplus.client`;
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
