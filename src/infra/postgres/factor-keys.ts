import { AuthError } from '../../domain/errors.ts';
import type { SealedSecret, SecretBox } from '../../domain/factors/ports.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** Rows read at once. */
const PAGE = 500;

/**
 * Encrypts every secret under the first key. Each row is a commit of its own, which locks nothing else, so that it can
 * neither hold up nor deadlock with a login.
 * @param progress hears how many were moved, after each page.
 * @returns also how many are left, because their key is not loaded.
 * @throws AuthError `unavailable`
 */
export async function rekeyFactors(
  prisma: PrismaClient,
  secrets: SecretBox,
  progress: (moved: number) => void,
): Promise<{ moved: number; left: number }> {
  const [newest = ''] = secrets.keyIds;
  let [moved, after, isLast] = [0, 0n, false];
  while (!isLast) {
    const rows = await mapDatabaseErrors(() =>
      prisma.factor.findMany({
        where: { type: 'totp', id: { gt: after }, keyId: { in: [...secrets.keyIds], not: newest } },
        orderBy: { id: 'asc' },
        take: PAGE,
      }),
    );
    for (const { id, userId, ...sealed } of rows) {
      const data = resealed(secrets, Number(userId), sealed);
      // One that is gone meanwhile, or that another run has moved, stays as it is.
      const where = { id, keyId: sealed.keyId };
      if (data) moved += (await mapDatabaseErrors(() => prisma.factor.updateMany({ where, data }))).count;
    }
    progress(moved);
    after = rows.at(-1)?.id ?? after;
    isLast = rows.length < PAGE;
  }
  const left = await mapDatabaseErrors(() =>
    prisma.factor.count({ where: { type: 'totp', keyId: { not: newest } } }),
  );
  return { moved, left };
}

/** @returns null if it is not one that was encrypted for this user: it stays, and the count shows it. */
function resealed(secrets: SecretBox, userId: number, sealed: SealedSecret) {
  try {
    const { keyId, secret } = secrets.seal(userId, secrets.open(userId, sealed));
    return { keyId, secret: new Uint8Array(secret) };
  } catch (error) {
    if (error instanceof AuthError) return null;
    throw error;
  }
}

/** How many secrets are encrypted under each key. */
export async function countFactorKeys(pool: Postgres['pool']): Promise<Map<string, number>> {
  const { rows } = await pool.query<{ id: string; count: string }>(
    "SELECT key_id AS id, count(*) FROM factors WHERE type = 'totp' GROUP BY key_id",
  );
  return new Map(rows.map(({ id, count }) => [id, Number(count)]));
}
