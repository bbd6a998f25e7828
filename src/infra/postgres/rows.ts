import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import type { Account } from '../../domain/users/account.ts';
import type { User } from '../../domain/user.ts';
import { Prisma, type Token as TokenRow, type User as UserRow } from '../../generated/prisma/client.ts';

// A new column does not compile until each record over all keys of its row says what becomes of it: here, and where
// accounts are deleted, exported and imported.

export const USER_COLUMNS = {
  id: 'id',
  username: 'username',
  skeleton: 'username_skeleton',
  email: 'email',
  emailGiven: 'email_given',
  emailKey: 'email_key',
  name: 'name',
  externalId: 'external_id',
  passwordHash: 'password_hash',
  importedHash: 'imported_hash',
  importedCost: 'imported_cost',
  createdAt: 'created_at',
  passwordVersion: 'password_version',
  disabledAt: 'disabled_at',
  enabledAt: 'enabled_at',
  roles: 'roles',
  emailVerifiedAt: 'email_verified_at',
  version: 'version',
  changedAt: 'changed_at',
  pending: 'pending',
  deletedAt: 'deleted_at',
  factorSince: 'factor_since',
  passkeyHandle: 'passkey_handle',
  pendingEmail: 'pending_email',
  pendingKey: 'pending_key',
  locale: 'locale',
  undeliverableAt: 'undeliverable_at',
} as const satisfies Record<keyof UserRow, string>;

/** The address as its owner gave it, in SQL (`givenAddress` of domain/address.ts). */
export const GIVEN_ADDRESS = Prisma.sql`coalesce(email_given, email)`;

export const TOKEN_COLUMNS = {
  id: 'id',
  userId: 'user_id',
  type: 'type',
  name: 'name',
  createdAt: 'created_at',
  lastUsedAt: 'last_used_at',
  revokedAt: 'revoked_at',
  endReason: 'end_reason',
  endedAt: 'ended_at',
  pending: 'pending',
  kid: 'kid',
  expiresAt: 'expires_at',
  createdBy: 'created_by',
  createdGeneration: 'created_generation',
  settledAt: 'settled_at',
  scopes: 'scopes',
  audience: 'audience',
  latest: 'latest',
  parent: 'parent',
  first: 'first',
  confirmed: 'confirmed',
  caller: 'client',
} as const satisfies Record<keyof TokenRow, string>;

/** What verify and introspection answer with, so that Redis holds it. */
const SERVED = {
  id: true,
  username: true,
  name: true,
  createdAt: true,
  disabledAt: true,
  emailVerifiedAt: true,
  roles: true,
  version: true,
  email: false,
  emailGiven: false,
  emailKey: false,
  skeleton: false,
  externalId: false,
  passwordHash: false,
  importedHash: false,
  importedCost: false,
  passwordVersion: false,
  enabledAt: false,
  changedAt: false,
  pending: false,
  deletedAt: false,
  factorSince: false,
  passkeyHandle: false,
  pendingEmail: false,
  pendingKey: false,
  locale: false,
  undeliverableAt: false,
} as const satisfies Record<keyof UserRow, boolean>;

/** What a TokenRecord holds. The rest is only written, or read by statements of its own. */
const RECORDED = {
  id: true,
  userId: true,
  type: true,
  name: true,
  createdAt: true,
  lastUsedAt: true,
  revokedAt: true,
  expiresAt: true,
  createdBy: true,
  scopes: true,
  audience: true,
  latest: true,
  parent: true,
  first: true,
  confirmed: true,
  caller: true,
  endReason: false,
  endedAt: false,
  pending: false,
  kid: false,
  createdGeneration: false,
  settledAt: false,
} as const satisfies Record<keyof TokenRow, boolean>;

/** The keys of a choice that are true. */
export type Chosen<Choice> = { [Key in keyof Choice]: Choice[Key] extends true ? Key : never }[keyof Choice];

export type ServedRow = Pick<UserRow, Chosen<typeof SERVED>>;
export type RecordedRow = Pick<TokenRow, Chosen<typeof RECORDED>>;
/** What services see besides. */
const OF_ACCOUNT = ['externalId', 'locale', 'undeliverableAt'] as const;
export type AccountRow = ServedRow & Pick<UserRow, (typeof OF_ACCOUNT)[number]>;

export function chosen<Choice extends Record<string, boolean>>(choice: Choice): Chosen<Choice>[] {
  return Object.keys(choice).filter((key) => choice[key]) as Chosen<Choice>[];
}

/** For SELECT and RETURNING: columns under the names of the rows. */
export function select<Key extends string>(
  columns: Record<Key, string>,
  keys: Key[],
  table = '',
  prefix = '',
): Prisma.Sql {
  return Prisma.raw(keys.map((key) => `${table}${columns[key]} AS "${prefix}${key}"`).join(', '));
}

export const SERVED_COLUMNS = select(USER_COLUMNS, chosen(SERVED));
export const ACCOUNT_COLUMNS = select(USER_COLUMNS, [...chosen(SERVED), ...OF_ACCOUNT]);
export const RECORDED_COLUMNS = select(TOKEN_COLUMNS, chosen(RECORDED));

/** For SELECT from `tokens` and `users` together: a record, and its user under names of their own. */
export const OWNED_COLUMNS = Prisma.sql`${select(TOKEN_COLUMNS, chosen(RECORDED), 'tokens.')},
  ${select(USER_COLUMNS, chosen(SERVED), 'users.', 'user.')}`;
export type OwnedRow = RecordedRow & { [Key in keyof ServedRow as `user.${Key}`]: ServedRow[Key] };

export function userOf(row: OwnedRow): User {
  const columns = chosen(SERVED).map((key) => [key, row[`user.${key}`]]);
  return toUser(Object.fromEntries(columns) as ServedRow);
}

/** For UPDATE. @param values an expression for each column; null leaves it as it is. */
export function assign<Key extends string>(
  columns: Record<Key, string>,
  values: Record<Key, Prisma.Sql | null>,
): Prisma.Sql {
  const assignments = (Object.keys(columns) as Key[]).flatMap((key) => {
    const value = values[key];
    return value === null ? [] : [Prisma.sql`${Prisma.raw(columns[key])} = ${value}`];
  });
  return Prisma.join(assignments);
}

/**
 * What has become since a time of an account that has changed since then; NULL if its status stayed. Only an
 * account that a command has created has changed without a new version.
 */
export function statusSince(time: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`CASE WHEN deleted_at > ${time} THEN 'deleted' WHEN disabled_at > ${time} THEN 'disabled'
    WHEN disabled_at IS NULL AND enabled_at > ${time} THEN 'enabled' WHEN version = 0 THEN 'created' END`;
}

/** Converts rows to domain values. Ids and generations stay below 2^53, so numbers can represent them. */
export function toUser(row: ServedRow): User {
  return {
    id: Number(row.id),
    username: row.username,
    name: row.name,
    createdAt: row.createdAt.getTime(),
    disabled: row.disabledAt !== null,
    emailVerified: row.emailVerifiedAt !== null,
    roles: row.roles,
    version: row.version,
  };
}

export function toAccount(row: AccountRow): Account {
  const { externalId, locale, undeliverableAt } = row;
  return { ...toUser(row), externalId, locale, emailDeliverable: undeliverableAt === null };
}

export function toRecord(row: RecordedRow): TokenRecord {
  return {
    id: Number(row.id),
    userId: Number(row.userId),
    type: row.type,
    name: row.name,
    createdAt: row.createdAt.getTime(),
    lastUsedAt: row.lastUsedAt?.getTime() ?? null,
    revokedAt: row.revokedAt?.getTime() ?? null,
    expiresAt: row.expiresAt?.getTime() ?? null,
    createdBy: row.createdBy === null ? null : Number(row.createdBy),
    limited:
      row.scopes === null
        ? null
        : { scopes: row.scopes.split(' ').filter(Boolean), audience: row.audience ?? '' },
    state: {
      latest: Number(row.latest),
      parent: Number(row.parent),
      first: Number(row.first),
      confirmed: row.confirmed,
      caller: row.caller,
    },
  };
}
