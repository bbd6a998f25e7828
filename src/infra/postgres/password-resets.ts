import type { AccountKey } from '../../domain/identifiers.ts';
import type { IssuedReset } from '../../domain/passwords/password-store.ts';
import type { Prisma } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors } from './errors.ts';
import { inLaneOf } from './names.ts';

/** Voids the token that an operator or a service made, under the lock of the user's row. A trigger voids mailed ones. */
export async function voidReset(tx: Prisma.TransactionClient, userId: bigint): Promise<void> {
  await tx.$executeRaw`DELETE FROM password_resets WHERE user_id = ${userId}`;
}

/**
 * Gives an account a reset token in place of an earlier one that was not mailed.
 * @param ttl seconds.
 * @returns null if there is no such user.
 * @throws AuthError `rate_limited`, `unavailable`
 */
export async function issueReset(
  postgres: Pick<Postgres, 'prisma' | 'inLane'>,
  key: AccountKey,
  tokenHash: Uint8Array,
  ttl: number,
): Promise<IssuedReset | null> {
  return mapDatabaseErrors(() =>
    inLaneOf(postgres, key, async (tx, isIt) => {
      const [user] = await tx.$queryRaw<{ id: bigint; disabled: boolean }[]>`
        SELECT id, disabled_at IS NOT NULL AS disabled FROM users WHERE ${isIt} FOR NO KEY UPDATE`;
      if (!user) return null;
      const [reset] = await tx.$queryRaw<[{ expiresAt: Date }]>`
        INSERT INTO password_resets (user_id, token_hash, expires_at)
        VALUES (${user.id}, ${new Uint8Array(tokenHash)}, clock_timestamp() + ${ttl}::int * interval '1 second')
        ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash, expires_at = excluded.expires_at
        RETURNING expires_at AS "expiresAt"`;
      return { userId: Number(user.id), expiresAt: reset.expiresAt.getTime(), disabled: user.disabled };
    }),
  );
}
