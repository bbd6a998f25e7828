import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import type { User } from '../../domain/user.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';
import { toRecord, toUser } from './rows.ts';

/** What the record says of a token and its owner. */
export interface RecordedToken {
  record: TokenRecord;
  /** As written; null while it is good. */
  endReason: string | null;
  /** Whether every replica knows of its end. */
  isPending: boolean;
  user: User;
  isUserDeleted: boolean;
}

/** @returns null if there is no record. @throws AuthError `unavailable` */
export function inspectToken(prisma: PrismaClient, tokenId: number): Promise<RecordedToken | null> {
  return mapDatabaseErrors(async () => {
    const row = await prisma.token.findUnique({ where: { id: BigInt(tokenId) }, include: { user: true } });
    return (
      row && {
        record: toRecord(row),
        endReason: row.endReason,
        isPending: row.pending,
        user: toUser(row.user),
        isUserDeleted: row.user.deletedAt !== null,
      }
    );
  });
}
