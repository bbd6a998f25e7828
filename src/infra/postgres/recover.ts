import type { TokenKey } from '../../domain/principal.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** Tokens per transaction. */
const PAGE = 1000;

/**
 * By how much versions of services rise: more than operators have ended tokens since the backup. A service that reads the
 * feed keeps the highest version that it has seen. It would refuse the new tokens of a lower one.
 */
const LOST_VERSIONS = 1_000_000;

/** One number for each of the two id sequences. */
export interface Ids {
  users: number;
  tokens: number;
}

/** The ids that PostgreSQL assigned last, or 0. */
export async function lastIds(prisma: PrismaClient): Promise<Ids> {
  const [row] = await mapDatabaseErrors(
    () => prisma.$queryRaw<Record<keyof Ids, bigint>[]>`
      SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('users', 'id')::regclass), 0) AS users,
             coalesce(pg_sequence_last_value(pg_get_serial_sequence('tokens', 'id')::regclass), 0) AS tokens`,
  );
  return { users: Number(row?.users), tokens: Number(row?.tokens) };
}

/** Makes the next ids greater than these, and never lowers them. */
export async function skipIds(prisma: PrismaClient, { users, tokens }: Ids): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$queryRaw`
      SELECT setval(pg_get_serial_sequence('users', 'id'),
               greatest(nextval(pg_get_serial_sequence('users', 'id')), ${users}::bigint)),
             setval(pg_get_serial_sequence('tokens', 'id'),
               greatest(nextval(pg_get_serial_sequence('tokens', 'id')), ${tokens}::bigint))`,
  );
}

/**
 * Revokes in the record the tokens that still have a tombstone in Redis. The reason was lost with the record. The
 * tombstones remain, and the service's replay renews them.
 * @returns how many were live in the record.
 */
export async function endAgain(prisma: PrismaClient, tombstones: readonly TokenKey[]): Promise<number> {
  return mapDatabaseErrors(
    () => prisma.$executeRaw`
      UPDATE tokens SET revoked_at = now(), pending = true
      FROM unnest(${tombstones.map(({ tokenId }) => BigInt(tokenId))}::bigint[],
        ${tombstones.map(({ userId }) => BigInt(userId))}::bigint[]) AS given(id, user_id)
      WHERE tokens.id = given.id AND tokens.user_id = given.user_id AND tokens.revoked_at IS NULL`,
  );
}

/** Returns the tokens that have no record. */
export async function withoutRecord(prisma: PrismaClient, tokens: readonly TokenKey[]): Promise<TokenKey[]> {
  const rows = await mapDatabaseErrors(
    () => prisma.$queryRaw<{ id: bigint; user_id: bigint }[]>`
      SELECT given.id, given.user_id
      FROM unnest(${tokens.map(({ tokenId }) => BigInt(tokenId))}::bigint[],
        ${tokens.map(({ userId }) => BigInt(userId))}::bigint[]) AS given(id, user_id)
      LEFT JOIN tokens USING (id, user_id) WHERE tokens.id IS NULL`,
  );
  return rows.map(({ id, user_id: userId }) => ({ tokenId: Number(id), userId: Number(userId) }));
}

/** Ends the service tokens of every client: after the backup, an operator may have ended those of some. */
export async function endServiceTokens(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() =>
    prisma.serviceClient.updateMany({ data: { version: { increment: LOST_VERSIONS } } }),
  );
}

/** Ends every session and long-lived token in the record. The service sets their tombstones. @returns how many. */
export async function endAll(prisma: PrismaClient): Promise<number> {
  let total = 0;
  for (;;) {
    const ended = await mapDatabaseErrors(
      () => prisma.$executeRaw`
        UPDATE tokens SET revoked_at = now(), pending = true, end_reason = 'admin'
        WHERE id IN (SELECT id FROM tokens WHERE revoked_at IS NULL ORDER BY id LIMIT ${PAGE} FOR UPDATE)`,
    );
    total += ended;
    if (ended < PAGE) return total;
  }
}
