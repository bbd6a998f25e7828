import type { TokenKey } from '../../domain/sessions/ports.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { orAuthError } from './errors.ts';

/**
 * By how many ids the sequences move on: more than can have been given since any backup, and nine million times that is
 * still below 2^53.
 */
const ID_GAP = 1_000_000_000;
/** Ended in one transaction. */
const PAGE = 1000;

/** No id that the lost part of the record gave to anybody is ever given again: tokens with it are still in hands. */
export async function skipLostIds(prisma: PrismaClient): Promise<void> {
  await orAuthError(
    () => prisma.$queryRaw`
      SELECT setval(pg_get_serial_sequence('users', 'id'),
               nextval(pg_get_serial_sequence('users', 'id')) + ${ID_GAP}),
             setval(pg_get_serial_sequence('tokens', 'id'),
               nextval(pg_get_serial_sequence('tokens', 'id')) + ${ID_GAP})`,
  );
}

/**
 * Writes into the record what the fast store still knows to be over; the reason was lost with the record. The tombstones
 * stand, and are renewed by the service's replay.
 * @returns how many were alive in the record.
 */
export async function endAgain(prisma: PrismaClient, tombstones: readonly TokenKey[]): Promise<number> {
  return orAuthError(
    () => prisma.$executeRaw`
      UPDATE tokens SET revoked_at = now(), pending = true
      FROM unnest(${tombstones.map(({ tokenId }) => BigInt(tokenId))}::bigint[],
        ${tombstones.map(({ userId }) => BigInt(userId))}::bigint[]) AS given(id, user_id)
      WHERE tokens.id = given.id AND tokens.user_id = given.user_id AND tokens.revoked_at IS NULL`,
  );
}

/** Those of the tokens that have no record. */
export async function withoutRecord(prisma: PrismaClient, tokens: readonly TokenKey[]): Promise<TokenKey[]> {
  const rows = await orAuthError(
    () => prisma.$queryRaw<{ id: bigint; user_id: bigint }[]>`
      SELECT given.id, given.user_id
      FROM unnest(${tokens.map(({ tokenId }) => BigInt(tokenId))}::bigint[],
        ${tokens.map(({ userId }) => BigInt(userId))}::bigint[]) AS given(id, user_id)
      LEFT JOIN tokens USING (id, user_id) WHERE tokens.id IS NULL`,
  );
  return rows.map(({ id, user_id: userId }) => ({ tokenId: Number(id), userId: Number(userId) }));
}

/** Ends every session and long-lived token on record; the service sets their tombstones. @returns how many. */
export async function endAll(prisma: PrismaClient): Promise<number> {
  let total = 0;
  for (;;) {
    const ended = await orAuthError(
      () => prisma.$executeRaw`
        UPDATE tokens SET revoked_at = now(), pending = true, end_reason = 'admin'
        WHERE id IN (SELECT id FROM tokens WHERE revoked_at IS NULL ORDER BY id LIMIT ${PAGE} FOR UPDATE)`,
    );
    total += ended;
    if (ended < PAGE) return total;
  }
}
