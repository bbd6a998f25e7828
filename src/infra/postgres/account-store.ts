import { endsAll, type Account, type AccountKey, type AccountStore } from '../../domain/users/account.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { Prisma, PrismaClient, User as UserRow } from '../../generated/prisma/client.ts';
import { changeRow } from './change-user.ts';
import { endTokens } from './ended-tokens.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { voidReset } from './password-resets.ts';
import { requireFree, requireUnreserved, TAKEN, whereAccount, type ReservedHashes } from './names.ts';
import { ACCOUNT_COLUMNS, toAccount, type AccountRow } from './rows.ts';
import { STORED_HASH } from './stored-hash.ts';

/** An account with what only an export shows. */
export interface ExportedAccount extends Account {
  email: string;
  /** Of ours, or the text of another system's. */
  passwordHash: Uint8Array;
}

/**
 * The accounts in PostgreSQL, for operators and registered services.
 * @param reserved hashes under which names of deleted accounts may be reserved.
 */
export function makeAccountStore(prisma: PrismaClient, reserved: ReservedHashes): AccountStore {
  return {
    find: (key) =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<(AccountRow & { isStandby: boolean })[]>`
          SELECT ${IS_STANDBY}, found.* FROM (SELECT) AS one
          LEFT JOIN (SELECT ${ACCOUNT_COLUMNS} FROM users WHERE ${whereAccount(key)}) AS found ON true`;
        const [row] = refuseStandby(rows);
        return (row.id as bigint | null) === null ? null : toAccount(row);
      }),

    page: (after, limit) =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<AccountRow[]>`
          SELECT ${ACCOUNT_COLUMNS} FROM users WHERE id > ${after} AND deleted_at IS NULL ORDER BY id LIMIT ${limit}`;
        return rows.map(toAccount);
      }),

    add: ({ username, passwordHash, ...account }) =>
      mapDatabaseErrors(
        () =>
          prisma.$transaction(async (tx) => {
            const names = { username, email: account.email };
            await requireFree(tx, names, reserved);
            const data = {
              ...{ username, skeleton: skeletonOf(username), ...account },
              passwordHash: new Uint8Array(passwordHash),
            };
            const added = await tx.user.create({ data });
            await requireUnreserved(tx, names, reserved);
            return toAccount(added);
          }),
        TAKEN,
      ),

    change: (key, changes, at) =>
      mapDatabaseErrors(
        () =>
          prisma.$transaction(async (tx) => {
            const before = await lockAccount(tx, key);
            if (!before) return null;
            await requireFree(tx, changes, reserved, before.id);
            const row = await changeRow(tx, before, changes);
            if (row) await requireUnreserved(tx, changes, reserved);
            const { ended, before: mark } =
              changes.disabled === true
                ? await endTokens(tx, Number(before.id), endsAll(at))
                : { ended: [], before: null };
            if (changes.disabled === true) await voidReset(tx, before.id);
            return { account: toAccount(row ?? before), isChanged: row !== null, ended, before: mark ?? 0 };
          }),
        TAKEN,
      ),

    delete: (key, at, { grace, hashes }) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          const found = await lockAccount(tx, key);
          if (!found) return null;
          const { id, username, email } = found;
          const { ended, before } = await endTokens(tx, Number(id), endsAll(at));
          await tx.$executeRaw`
            INSERT INTO reserved_names (name_hash, until)
            SELECT hash, clock_timestamp() + ${grace} * interval '1 millisecond'
            FROM unnest(${hashes({ username, email })}::text[]) AS hash
            ON CONFLICT (name_hash) DO UPDATE SET until = excluded.until`;
          await tx.$executeRaw`DELETE FROM known_devices WHERE user_id = ${id}`;
          // Lock in the order of ids, as write-behind does.
          await tx.$executeRaw`
            WITH locked AS MATERIALIZED (SELECT id FROM tokens WHERE user_id = ${id} ORDER BY id FOR NO KEY UPDATE)
            UPDATE tokens SET name = '', client = '' FROM locked WHERE tokens.id = locked.id`;
          await voidReset(tx, id);
          // No name, and no text that a login takes for one, contains an @ at its start.
          const [row] = await tx.$queryRaw<[AccountRow]>`
            UPDATE users SET username = '@' || id, username_skeleton = '@' || id, email = '@' || id, name = '',
              password_hash = '', imported_hash = NULL, imported_cost = NULL, roles = '{}', email_verified_at = NULL,
              password_version = password_version + 1, disabled_at = coalesce(disabled_at, clock_timestamp()),
              deleted_at = clock_timestamp(), version = version + 1, changed_at = clock_timestamp(), pending = true
            WHERE id = ${id} RETURNING ${ACCOUNT_COLUMNS}`;
          return { account: toAccount(row), isChanged: true, ended, before: before ?? 0 };
        }),
      ),

    pending: (userId) =>
      mapDatabaseErrors(async () => {
        const id = BigInt(userId);
        const [revocations, changes] = await Promise.all([
          prisma.token.count({ where: { userId: id, pending: true } }),
          prisma.user.count({ where: { id, pending: true } }),
        ]);
        return { revocations, changes };
      }),
  };
}

/** Locks an account's row until the transaction ends: a login, or another change, waits for it. */
async function lockAccount(tx: Prisma.TransactionClient, key: AccountKey): Promise<UserRow | null> {
  const [row] = await tx.$queryRaw<{ id: bigint }[]>`
    SELECT id FROM users WHERE ${whereAccount(key)} FOR UPDATE`;
  return row ? tx.user.findUniqueOrThrow({ where: { id: row.id } }) : null;
}

/** A page of accounts with hashes and e-mail addresses, in the order of ids. @throws AuthError `unavailable` */
export async function pageToExport(
  prisma: PrismaClient,
  after: number,
  count: number,
): Promise<ExportedAccount[]> {
  const rows = await mapDatabaseErrors(
    () => prisma.$queryRaw<(AccountRow & Pick<ExportedAccount, 'email' | 'passwordHash'>)[]>`
      SELECT ${ACCOUNT_COLUMNS}, email, ${STORED_HASH} AS "passwordHash"
      FROM users WHERE id > ${after} AND deleted_at IS NULL ORDER BY id LIMIT ${count}`,
  );
  return rows.map((row) => ({ ...toAccount(row), email: row.email, passwordHash: row.passwordHash }));
}
