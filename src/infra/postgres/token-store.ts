import { AuthError } from '../../domain/errors.ts';
import type { EndReason } from '../../domain/tokens/ended-token.ts';
import type { NewSession, TokenStore } from '../../domain/tokens/ports.ts';
import type { Prisma, PrismaClient, Token as TokenRow } from '../../generated/prisma/client.ts';
import { endTokens, findEnded } from './ended-tokens.ts';
import { IS_STANDBY, orAuthError, refuseStandby } from './errors.ts';
import { toRecord, toUser } from './rows.ts';

/** The token records in PostgreSQL. */
export function makeTokenStore(prisma: PrismaClient): TokenStore {
  return {
    addSession: (userId, session, room) =>
      orAuthError(() =>
        prisma.$transaction(async (tx) => {
          if (!(await lockUser(tx, userId))) return null;
          const replaced = await makeRoom(tx, userId, room, session.createdAt);
          const data = { userId: BigInt(userId), ...sessionColumns(session) };
          const { id } = await tx.token.create({ data, select: { id: true } });
          return { id: Number(id), replaced };
        }),
      ),

    addLongLived: (userId, { name, createdAt, kid }, limit) =>
      orAuthError(() =>
        prisma.$transaction(async (tx) => {
          if (!(await lockUser(tx, userId))) throw new AuthError('invalid_token');
          const count = await tx.token.count({
            where: { userId: BigInt(userId), type: 'llt', revokedAt: null },
          });
          if (count >= limit) return null;
          const token = { type: 'llt' as const, name, createdAt: new Date(createdAt), kid };
          const data = { userId: BigInt(userId), ...token };
          const { id } = await tx.token.create({ data, select: { id: true } });
          return Number(id);
        }),
      ),

    find: (id) =>
      orAuthError(async () => {
        const rows = await prisma.$queryRaw<FoundRow[]>`
          SELECT ${IS_STANDBY}, tokens.id, type::text,
            tokens.user_id AS "userId", tokens.name, tokens.created_at AS "createdAt",
            last_used_at AS "lastUsedAt", revoked_at AS "revokedAt", latest, parent, first, confirmed, client,
            username, users.name AS "userName", users.created_at AS "userCreatedAt", disabled_at AS "disabledAt"
          FROM (SELECT) AS one
          LEFT JOIN tokens ON tokens.id = ${BigInt(id)} LEFT JOIN users ON users.id = tokens.user_id`;
        const [row] = refuseStandby(rows);
        return row.id === null ? null : { record: toRecord(row), user: userOf(row) };
      }),

    revoke: (userId, id, at, type, reason = 'logout') =>
      orAuthError(async () => {
        const where = { id: BigInt(id), userId: BigInt(userId), ...(type && { type }) };
        const { count } = await prisma.token.updateMany({
          where: { ...where, revokedAt: null },
          data: { revokedAt: new Date(at), pending: true, endReason: reason satisfies EndReason },
        });
        return count > 0 || (await prisma.token.count({ where })) > 0;
      }),

    revokeAll: (userId, ending) =>
      orAuthError(() => prisma.$transaction((tx) => endTokens(tx, userId, ending))),

    list: (userId, usedSince = -1) =>
      orAuthError(async () => {
        const isInUse = [{ type: 'llt' as const }, { latest: { gt: BigInt(usedSince) } }];
        const where = { userId: BigInt(userId), revokedAt: null, OR: isInUse };
        return (await prisma.token.findMany({ where, orderBy: { id: 'asc' } })).map(toRecord);
      }),

    listEnded: (userId, range, lifetimes) => orAuthError(() => findEnded(prisma, userId, range, lifetimes)),
  };
}

/**
 * A token with its user, by one statement: two could be parted by the user's being disabled. A standby, or a primary
 * that was replaced, may not know yet of a revocation, and whatever it answers would become the fast truth of all.
 */
type FoundRow = { isStandby: boolean } & ({ id: null } | (Omit<TokenRow, 'endReason'> & UserColumns));

interface UserColumns {
  username: string;
  userName: string;
  userCreatedAt: Date;
  disabledAt: Date | null;
}

function userOf({
  userId: id,
  userName: name,
  userCreatedAt: createdAt,
  ...row
}: Omit<TokenRow, 'endReason'> & UserColumns) {
  return toUser({ id, name, createdAt, username: row.username, disabledAt: row.disabledAt });
}

/** The columns of a session that has just been opened. */
export function sessionColumns({ name, createdAt, state }: NewSession) {
  return {
    type: 'session' as const,
    name,
    createdAt: new Date(createdAt),
    latest: BigInt(state.latest),
    parent: BigInt(state.parent),
    first: BigInt(state.first),
    confirmed: state.confirmed,
    client: state.client,
  };
}

/**
 * Locks the user's row until the transaction ends, so that limits hold when logins race, and reads it again, so that no
 * login slips past a user's being disabled.
 * @returns whether the user may still log in.
 */
async function lockUser(tx: Prisma.TransactionClient, userId: number): Promise<boolean> {
  const rows = await tx.$queryRaw<{ disabled_at: Date | null }[]>`
    SELECT disabled_at FROM users WHERE id = ${BigInt(userId)} FOR NO KEY UPDATE`;
  return rows[0]?.disabled_at === null;
}

/** Revokes those sessions unused for longest that one more would be too many for. */
async function makeRoom(
  tx: Prisma.TransactionClient,
  userId: number,
  { limit, liveSince, createdSince = 0 }: Parameters<TokenStore['addSession']>[2],
  at: number,
): Promise<number[]> {
  const live = await tx.token.findMany({
    where: {
      userId: BigInt(userId),
      type: 'session',
      revokedAt: null,
      latest: { gt: BigInt(liveSince) },
      createdAt: { gt: new Date(createdSince) },
    },
    orderBy: { latest: 'desc' },
    select: { id: true },
    skip: limit - 1,
  });
  const ids = live.map(({ id }) => id);
  if (ids.length === 0) return [];
  // In the order of ids, as write-behind takes its locks.
  await tx.$queryRaw`SELECT id FROM tokens WHERE id = ANY(${ids}) ORDER BY id FOR NO KEY UPDATE`;
  await tx.token.updateMany({
    where: { id: { in: ids }, revokedAt: null },
    data: { revokedAt: new Date(at), pending: true, endReason: 'replaced' satisfies EndReason },
  });
  return ids.map(Number);
}
