import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import type { Account } from '../../domain/users/account.ts';
import type { User } from '../../domain/users/user.ts';
import { Prisma, type Token as TokenRow, type User as UserRow } from '../../generated/prisma/client.ts';

/** Converts rows to domain values. Ids and generations stay below 2^53, so numbers can represent them. */
export function toUser(
  row: Pick<UserRow, 'id' | 'username' | 'name' | 'createdAt' | 'disabledAt' | 'roles' | 'version'>,
): User {
  return {
    id: Number(row.id),
    username: row.username,
    name: row.name,
    createdAt: row.createdAt.getTime(),
    disabled: row.disabledAt !== null,
    roles: row.roles,
    version: row.version,
  };
}

/** The columns of an account. */
export type AccountRow = Pick<
  UserRow,
  'id' | 'username' | 'name' | 'createdAt' | 'disabledAt' | 'emailVerifiedAt' | 'roles' | 'version'
>;

export const ACCOUNT_COLUMNS = Prisma.sql`id, username, name, created_at AS "createdAt", disabled_at AS "disabledAt",
  email_verified_at AS "emailVerifiedAt", roles, version`;

export function toAccount(row: AccountRow): Account {
  return { ...toUser(row), emailVerified: row.emailVerifiedAt !== null };
}

/** The columns of a record. */
export type TokenColumns = Omit<
  TokenRow,
  'endReason' | 'endedAt' | 'pending' | 'settledAt' | 'kid' | 'createdGeneration'
>;

export function toRecord(row: TokenColumns): TokenRecord {
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
    state: {
      latest: Number(row.latest),
      parent: Number(row.parent),
      first: Number(row.first),
      confirmed: row.confirmed,
      client: row.client,
    },
  };
}
