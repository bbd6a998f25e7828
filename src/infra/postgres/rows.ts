import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import type { User } from '../../domain/users/user.ts';
import type { Token as TokenRow, User as UserRow } from '../../generated/prisma/client.ts';

/** Rows to the domain's values. Ids and generations stay below 2^53, so numbers hold them. */
export function toUser(row: Pick<UserRow, 'id' | 'username' | 'name' | 'createdAt' | 'disabledAt'>): User {
  return {
    id: Number(row.id),
    username: row.username,
    name: row.name,
    createdAt: row.createdAt.getTime(),
    disabled: row.disabledAt !== null,
  };
}

export function toRecord(row: Omit<TokenRow, 'endReason' | 'pending' | 'settledAt'>): TokenRecord {
  return {
    id: Number(row.id),
    userId: Number(row.userId),
    type: row.type,
    name: row.name,
    createdAt: row.createdAt.getTime(),
    lastUsedAt: row.lastUsedAt?.getTime() ?? null,
    revokedAt: row.revokedAt?.getTime() ?? null,
    state: {
      latest: Number(row.latest),
      parent: Number(row.parent),
      first: Number(row.first),
      confirmed: row.confirmed,
      client: row.client,
    },
  };
}
