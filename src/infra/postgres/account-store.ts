import type { UserStatus } from '../../domain/feed/ports.ts';
import { givenAddress, storedAddress } from '../../domain/address.ts';
import { endsAll, type Account, type AccountStore, type Address } from '../../domain/users/account.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { WantedNames } from '../../domain/users/taken.ts';
import {
  Prisma,
  type PrismaClient,
  type Token as TokenRow,
  type User as UserRow,
} from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { changeRow, NO_ADDRESS_CHANGES, requireStoredSpelling } from './change-user.ts';
import type { Postgres } from './client.ts';
import { endTokens } from './ended-tokens.ts';
import { mapDatabaseErrors, onPrimary } from './errors.ts';
import { addConfirmedTotps } from './factor-store.ts';
import { voidReset } from './password-resets.ts';
import {
  findTaken,
  inLaneOf,
  newNamesOf,
  requireFree,
  requireStillFree,
  reserveNames,
  whereAccount,
  writeNames,
  type ReservedHashes,
} from './names.ts';
import {
  ACCOUNT_COLUMNS,
  assign,
  chosen,
  GIVEN_ADDRESS,
  select,
  toAccount,
  TOKEN_COLUMNS,
  USER_COLUMNS,
  type AccountRow,
  type Chosen,
} from './rows.ts';
import { STORED_HASH } from './stored-hash.ts';
import { wantMail } from './wanted-mails.ts';

const KEPT = null;
const NOW = Prisma.sql`clock_timestamp()`;
const NULL = Prisma.sql`NULL`;
const EMPTY = Prisma.sql`''`;
/** No name, and no text that a login takes for one, contains an @ at its start. */
const NO_NAME = Prisma.sql`'@' || id`;

/** What is left of a deleted account. */
const ERASED_USER = {
  id: KEPT,
  username: NO_NAME,
  skeleton: NO_NAME,
  email: NO_NAME,
  emailGiven: NULL,
  emailKey: NULL,
  name: EMPTY,
  externalId: NULL,
  passwordHash: EMPTY,
  importedHash: NULL,
  importedCost: NULL,
  createdAt: KEPT,
  passwordVersion: Prisma.sql`password_version + 1`,
  disabledAt: Prisma.sql`coalesce(disabled_at, ${NOW})`,
  enabledAt: NULL,
  roles: Prisma.sql`'{}'`,
  emailVerifiedAt: NULL,
  version: Prisma.sql`version + 1`,
  changedAt: NOW,
  pending: Prisma.sql`true`,
  deletedAt: NOW,
  factorSince: NULL,
  passkeyHandle: NULL,
  pendingEmail: NULL,
  pendingKey: NULL,
  locale: NULL,
  undeliverableAt: NULL,
} satisfies Record<keyof UserRow, Prisma.Sql | null>;

/** What is left of its tokens, until they are purged: every replica has to learn that they ended. */
const ERASED_TOKEN = {
  id: KEPT,
  userId: KEPT,
  type: KEPT,
  createdAt: KEPT,
  lastUsedAt: KEPT,
  expiresAt: KEPT,
  kid: KEPT,
  revokedAt: KEPT,
  endReason: KEPT,
  endedAt: KEPT,
  pending: KEPT,
  settledAt: KEPT,
  createdBy: KEPT,
  createdGeneration: KEPT,
  audience: KEPT,
  latest: KEPT,
  parent: KEPT,
  first: KEPT,
  confirmed: KEPT,
  name: EMPTY,
  caller: EMPTY,
  // The user chose these words. The row stays that of a limited token.
  scopes: Prisma.sql`CASE WHEN scopes IS NOT NULL THEN '' END`,
} satisfies Record<keyof TokenRow, Prisma.Sql | null>;

/** What an export holds of an account, for an import elsewhere. The id is for the next page only. */
const EXPORTED = {
  id: true,
  username: true,
  name: true,
  email: true,
  externalId: true,
  passwordHash: true,
  createdAt: true,
  roles: true,
  disabledAt: true,
  emailVerifiedAt: true,
  locale: true,
  // `passwordHash` stands for both kinds of hash, and `email` for the address as it was given.
  importedHash: false,
  importedCost: false,
  emailGiven: false,
  // Made anew by an import.
  skeleton: false,
  emailKey: false,
  passwordVersion: false,
  version: false,
  changedAt: false,
  pending: false,
  // A deleted account is not exported.
  enabledAt: false,
  deletedAt: false,
  // Secrets are encrypted with this installation's keys, and passkeys work for its RP ID only.
  factorSince: false,
  passkeyHandle: false,
  // A wish, of which this installation's mailer knows, and what that mailer found.
  pendingEmail: false,
  pendingKey: false,
  undeliverableAt: false,
} as const satisfies Record<keyof UserRow, boolean>;

type ExportedRow = Pick<UserRow, Chosen<typeof EXPORTED>>;
type Converted = 'id' | 'createdAt' | 'disabledAt' | 'emailVerifiedAt';

/** `passwordHash` is of ours, or the text of another system's. */
export type ExportedAccount = Omit<ExportedRow, Converted> &
  Pick<Account, 'id' | 'createdAt' | 'disabled' | 'emailVerified'>;

/**
 * The accounts in PostgreSQL, for operators and registered services.
 * @param reserved hashes under which names of deleted accounts may be reserved.
 * @param rules of addresses. Left out where none changes.
 */
export function makeAccountStore(
  postgres: Pick<Postgres, 'prisma' | 'inLane'>,
  reserved: ReservedHashes,
  rules = NO_ADDRESS_CHANGES,
): AccountStore {
  const { prisma } = postgres;
  return {
    find: (key) =>
      mapDatabaseErrors(async () => {
        const where = await whereAccount(prisma, key);
        const [row] = await onPrimary<AccountRow>(
          prisma,
          Prisma.sql`SELECT ${ACCOUNT_COLUMNS} FROM users WHERE ${where}`,
        );
        return row ? toAccount(row) : null;
      }),

    address: (id) =>
      mapDatabaseErrors(async () => {
        const where = await whereAccount(prisma, { id });
        const [row] = await onPrimary<Address & { id: bigint }>(
          prisma,
          Prisma.sql`
            SELECT id, ${GIVEN_ADDRESS} AS email, email_verified_at IS NOT NULL AS verified,
              pending_email AS pending, undeliverable_at IS NULL AS deliverable
            FROM users WHERE ${where}`,
        );
        if (!row) return null;
        const { email, verified, pending, deliverable } = row;
        return { email, verified, pending, deliverable };
      }),

    page: (after, limit, { role, disabled } = {}) =>
      mapDatabaseErrors(async () => {
        const conditions = [Prisma.sql`id > ${after}`, Prisma.sql`deleted_at IS NULL`];
        // In the words of the indexes.
        if (role !== undefined) conditions.push(Prisma.sql`roles <> '{}' AND roles @> ARRAY[${role}]`);
        if (disabled !== undefined)
          conditions.push(disabled ? Prisma.sql`disabled_at IS NOT NULL` : Prisma.sql`disabled_at IS NULL`);
        const rows = await onPrimary<AccountRow>(
          prisma,
          Prisma.sql`
            SELECT ${ACCOUNT_COLUMNS} FROM users WHERE ${Prisma.join(conditions, ' AND ')}
            ORDER BY id LIMIT ${limit}`,
        );
        return rows.map(toAccount);
      }),

    add: (
      { username, passwordHash, disabled, emailVerified, invite, sealTotp, ...account },
      isAnnounced = false,
    ) => {
      const { email, externalId = null } = account;
      const names = { username, email, externalId };
      return writeNames(
        () =>
          prisma.$transaction(async (tx) => {
            await requireFree(tx, names, reserved);
            const [{ now }] = await tx.$queryRaw<[{ now: Date }]>`SELECT now()`;
            const data = {
              username,
              skeleton: skeletonOf(username),
              ...account,
              ...storedAddress(account.email),
              passwordHash: new Uint8Array(passwordHash),
              disabledAt: disabled === true ? now : null,
              emailVerifiedAt: emailVerified === true ? now : null,
              factorSince: sealTotp ? now : null,
            };
            const added = await tx.user.create({ data });
            await requireStillFree(tx, added.id, names, reserved);
            if (sealTotp) {
              const sealed = sealTotp(Number(added.id));
              await addConfirmedTotps(tx, [{ userId: added.id, sealed }], now);
            }
            if (invite === true) await wantMail(tx, added.id, 'invitation');
            if (isAnnounced)
              await tx.$executeRaw`UPDATE users SET changed_at = clock_timestamp() WHERE id = ${added.id}`;
            return toAccount(added);
          }),
        () => findTaken(prisma, names, reserved),
      );
    },

    change: (key, changes, at) => {
      /** Known as soon as the row is locked. */
      let wanted: [names: WantedNames, id: bigint] = [{}, 0n];
      return writeNames(
        () =>
          inLaneOf(postgres, key, async (tx, isIt) => {
            const before = await lockAccount(tx, isIt);
            if (!before) return null;
            const names = newNamesOf(changes, before);
            wanted = [names, before.id];
            await requireFree(tx, names, reserved, before.id);
            requireStoredSpelling(before, changes);
            const row = await changeRow(tx, before, changes, rules);
            if (row) await requireStillFree(tx, before.id, names, reserved);
            const { ended, before: mark } =
              changes.disabled === true
                ? await endTokens(tx, Number(before.id), endsAll(at))
                : { ended: [], before: null };
            if (changes.disabled === true) await voidReset(tx, before.id);
            return {
              account: toAccount(row ?? before),
              isChanged: row !== null,
              status: row && statusAfter(before, row),
              ended,
              before: mark ?? 0,
            };
          }),
        () => findTaken(prisma, wanted[0], reserved, wanted[1]),
      );
    },

    delete: (key, at, { grace, hashes }) =>
      mapDatabaseErrors(() =>
        inLaneOf(postgres, key, async (tx, isIt) => {
          const found = await lockAccount(tx, isIt);
          if (!found) return null;
          const { id, username } = found;
          const names = { username, email: givenAddress(found) };
          const { ended, before } = await endTokens(tx, Number(id), endsAll(at));
          await reserveNames(tx, hashes(names), grace, null);
          await tx.$executeRaw`DELETE FROM known_devices WHERE user_id = ${id}`;
          // The order of locks: caller-lock.ts.
          await tx.$executeRaw`
            WITH locked AS MATERIALIZED (SELECT id FROM tokens WHERE user_id = ${id} ORDER BY id FOR NO KEY UPDATE)
            UPDATE tokens SET ${assign(TOKEN_COLUMNS, ERASED_TOKEN)} FROM locked WHERE tokens.id = locked.id`;
          await voidReset(tx, id);
          const [row] = await tx.$queryRaw<[AccountRow]>`
            UPDATE users SET ${assign(USER_COLUMNS, ERASED_USER)}
            WHERE id = ${id} RETURNING ${ACCOUNT_COLUMNS}`;
          return {
            account: toAccount(row),
            isChanged: true,
            status: 'deleted',
            ended,
            before: before ?? 0,
          };
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
async function lockAccount(tx: AccountTransaction, isIt: Prisma.Sql): Promise<UserRow | null> {
  const [row] = await tx.$queryRaw<{ id: bigint }[]>`SELECT id FROM users WHERE ${isIt} FOR UPDATE`;
  return row ? tx.user.findUniqueOrThrow({ where: { id: row.id } }) : null;
}

function statusAfter(before: UserRow, { disabledAt }: AccountRow): UserStatus | null {
  if ((before.disabledAt === null) === (disabledAt === null)) return null;
  return disabledAt === null ? 'enabled' : 'disabled';
}

/**
 * The ids of the accounts whose external id is `mark` and their username, and that are older than `seconds`.
 * @param mark of visible ASCII characters, the last no `~`.
 * @throws AuthError `unavailable`
 */
export async function findMarked(prisma: PrismaClient, mark: string, seconds: number): Promise<number[]> {
  const last = mark.charCodeAt(mark.length - 1);
  const end = mark.slice(0, -1) + String.fromCharCode(last + 1);
  // As a range: an index finds it.
  const rows = await mapDatabaseErrors(() =>
    onPrimary<{ id: bigint }>(
      prisma,
      Prisma.sql`
        SELECT id FROM users
        WHERE external_id IS NOT NULL AND external_id >= ${mark} AND external_id < ${end}
          AND external_id = ${mark}::text || username
          AND created_at < clock_timestamp() - ${seconds} * interval '1 second'
        ORDER BY id`,
    ),
  );
  return rows.map(({ id }) => Number(id));
}

/** A page of accounts with hashes and e-mail addresses, in the order of ids. @throws AuthError `unavailable` */
export async function pageToExport(
  prisma: PrismaClient,
  after: number,
  count: number,
): Promise<ExportedAccount[]> {
  const rows = await mapDatabaseErrors(() =>
    onPrimary<ExportedRow>(
      prisma,
      Prisma.sql`
        SELECT ${select(USER_COLUMNS, chosen({ ...EXPORTED, email: false, passwordHash: false }))},
          ${GIVEN_ADDRESS} AS email, ${STORED_HASH} AS "passwordHash"
        FROM users WHERE id > ${after} AND deleted_at IS NULL ORDER BY id LIMIT ${count}`,
    ),
  );
  return rows.map(({ id, createdAt, disabledAt, emailVerifiedAt, ...row }) => ({
    ...row,
    id: Number(id),
    createdAt: createdAt.getTime(),
    disabled: disabledAt !== null,
    emailVerified: emailVerifiedAt !== null,
  }));
}
