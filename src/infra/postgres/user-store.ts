import { givenAddress, storedAddress } from '../../domain/address.ts';
import type { HashSamples } from '../../domain/passwords/ports.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { OwnAccount, UserStore } from '../../domain/users/ports.ts';
import type { UniqueField, WantedNames } from '../../domain/users/taken.ts';
import { Prisma, type PrismaClient, type User as UserRow } from '../../generated/prisma/client.ts';
import { AuthError } from '../../domain/errors.ts';
import { lockCaller } from './caller-lock.ts';
import type { Postgres } from './client.ts';
import { changeRow, NO_ADDRESS_CHANGES } from './change-user.ts';
import { wantAddress } from './own-address.ts';
import { mapDatabaseErrors, onPrimary } from './errors.ts';
import { KNOWN_CALLERS, rememberDevice } from './known-devices.ts';
import {
  findTaken,
  newNamesOf,
  requireStillFree,
  whereAccount,
  writeNames,
  type ReservedHashes,
} from './names.ts';
import { GIVEN_ADDRESS, SERVED_COLUMNS, toUser } from './rows.ts';
import { IMPORTED_COUNTS, STORED_HASH } from './stored-hash.ts';
import { sessionColumns } from './token-store.ts';
import { wantMail } from './wanted-mails.ts';

/**
 * The accounts in PostgreSQL.
 * @param reserved hashes under which names of deleted accounts may be reserved; may be left out where no name is
 * checked.
 * @param rules of addresses. May be left out where none changes.
 */
export function makeUserStore(
  { prisma, inLane }: Pick<Postgres, 'prisma' | 'inLane'>,
  reserved: ReservedHashes = () => [],
  rules = NO_ADDRESS_CHANGES,
): UserStore & HashSamples {
  /** @param except the account whose own names do not count; 0 for a new one. */
  async function takenNow(wanted: WantedNames, except: number): Promise<UniqueField[]> {
    const id = BigInt(except);
    const before = except === 0 ? null : await prisma.user.findUnique({ where: { id } });
    return findTaken(prisma, before ? newNamesOf(wanted, before) : wanted, reserved, id);
  }

  return {
    addWithSession: ({ username, email, name, passwordHash, locale }, session) =>
      writeNames(
        () =>
          prisma.$transaction(async (tx) => {
            const { id, tokens } = await tx.user.create({
              data: {
                username,
                skeleton: skeletonOf(username),
                ...storedAddress(email),
                name,
                locale,
                passwordHash: new Uint8Array(passwordHash),
                createdAt: new Date(session.createdAt),
                tokens: { create: sessionColumns(session) },
              },
              select: { id: true, tokens: { select: { id: true } } },
            });
            await requireStillFree(tx, id, { username, email }, reserved);
            if (rules.wantsProof) await wantMail(tx, id, 'email_verification');
            await rememberDevice(tx, Number(id), session.state.caller, false);
            return { userId: Number(id), tokenId: Number(tokens[0]?.id) };
          }),
        () => takenNow({ username, email }, 0),
      ),

    findTaken: (wanted, except = 0) => mapDatabaseErrors(() => takenNow(wanted, except)),

    change: (caller, names, passwordVersion) =>
      writeNames(
        () =>
          inLane(
            caller.userId,
            passwordVersion === null ? { token: caller.tokenId } : 'proof',
            async (tx) => {
              await lockCaller(tx, caller);
              const before = await tx.user.findUniqueOrThrow({ where: { id: BigInt(caller.userId) } });
              if (passwordVersion !== null && before.passwordVersion !== passwordVersion)
                throw new AuthError('invalid_credentials', { reason: 'password' });
              const { email, ...others } = names;
              const isWanted = rules.wantsProof && email !== undefined && email !== givenAddress(before);
              const now = isWanted ? others : names;
              const row = await changeRow(tx, before, now, rules);
              await requireStillFree(tx, before.id, newNamesOf(now, before), reserved);
              if (isWanted) await wantAddress(tx, before.id, email, rules.notices);
              return { user: toUser(row ?? before), isChanged: row !== null, isPending: isWanted };
            },
          ),
        () => takenNow(names, caller.userId),
      ),

    findForLogin: (name) =>
      mapDatabaseErrors(async () => findAccount(prisma, await whereAccount(prisma, name))),

    findOwn: (userId) =>
      mapDatabaseErrors(async () => findAccount(prisma, await whereAccount(prisma, { id: userId }))),

    replaceHash: (userId, from, to) =>
      mapDatabaseErrors(() =>
        inLane(userId, 'proof', async (tx) => {
          await tx.$executeRaw`
          UPDATE users SET password_hash = ${new Uint8Array(to)}, imported_hash = NULL, imported_cost = NULL
          WHERE id = ${userId} AND ${STORED_HASH} = ${new Uint8Array(from)}`;
        }),
      ),

    // The first 16 bytes of a hash of ours are its algorithm and parameters.
    sampleHashes: (after, count) =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<{ id: bigint; password_hash: Uint8Array }[]>`
          WITH page AS (
            SELECT id, CASE WHEN ${IMPORTED_COUNTS} THEN imported_cost
              ELSE encode(substring(password_hash FROM 1 FOR 16), 'hex') END AS cost FROM users
            WHERE id > ${after} AND deleted_at IS NULL ORDER BY id LIMIT ${count}
          ), samples AS (
            SELECT max(id) AS id FROM page GROUP BY cost
          )
          SELECT id, ${STORED_HASH} AS password_hash FROM samples JOIN users USING (id)`;
        return rows.map(({ id, password_hash: passwordHash }) => ({ userId: Number(id), passwordHash }));
      }),
  };
}

async function findAccount(prisma: PrismaClient, where: Prisma.Sql): Promise<OwnAccount | null> {
  const [row] = await onPrimary<UserRow & { knownCallers: string[] }>(
    prisma,
    Prisma.sql`
      SELECT ${SERVED_COLUMNS}, ${GIVEN_ADDRESS} AS email, ${STORED_HASH} AS "passwordHash",
        password_version AS "passwordVersion", enabled_at AS "enabledAt", ${KNOWN_CALLERS}
      FROM users WHERE ${where}`,
  );
  if (!row) return null;
  const { email, passwordHash, passwordVersion, knownCallers } = row;
  const enabledAt = row.enabledAt?.getTime() ?? 0;
  return { user: toUser(row), email, passwordHash, passwordVersion, enabledAt, knownCallers };
}
