import { canonicalAddress } from '../../domain/address.ts';
import { AuthError } from '../../domain/errors.ts';
import type { OwnAddressStore } from '../../domain/mails/own-address.ts';
import type { WantedNames } from '../../domain/users/taken.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { lockCaller } from './caller-lock.ts';
import { changeRow, type AddressRules } from './change-user.ts';
import type { Postgres } from './client.ts';
import { findTaken, newNamesOf, requireStillFree, writeNames, type ReservedHashes } from './names.ts';
import { findToken, keepUsed, repeatedProof } from './one-time-tokens.ts';
import { voidReset } from './password-resets.ts';
import { toUser } from './rows.ts';
import { wantMail, wantNotice } from './wanted-mails.ts';

/**
 * Makes an address the pending one, in place of an earlier one, and wants a mail that proves it, under the lock of the
 * user's row. It reserves nothing, so the account that proves it first gets it.
 * @param notices whether the address in force wants a mail that tells of it.
 * @throws AuthError `rate_limited` if the account or the address has had its mails
 */
export async function wantAddress(
  tx: AccountTransaction,
  userId: bigint,
  email: string,
  notices: boolean,
): Promise<void> {
  // First: a trigger withdraws the mail for another one.
  await tx.user.update({
    where: { id: userId },
    data: { pendingEmail: email, pendingKey: canonicalAddress(email) },
  });
  if (notices) await wantNotice(tx, userId, 'email_change_requested');
  // Last, because it locks the address too.
  const freeIn = await wantMail(tx, userId, 'email_change', { address: email });
  if (freeIn > 0)
    throw new AuthError('rate_limited', { retryAfter: Math.ceil(freeIn / 1000), reason: 'mails' });
}

/** Proofs of pending addresses in PostgreSQL. A trigger withdraws what a change voids, so that replicas of 1.0.0 do so too. */
export function makeOwnAddressStore(
  { prisma, inLane }: Pick<Postgres, 'prisma' | 'inLane'>,
  reserved: ReservedHashes,
  rules: AddressRules,
): OwnAddressStore {
  return {
    prove: (caller, tokenHash) => {
      /** Known as soon as the row is locked. */
      let wanted: WantedNames = {};
      return writeNames(
        () =>
          inLane(caller.userId, { token: caller.tokenId }, async (tx) => {
            await lockCaller(tx, caller);
            const token = await findToken(tx, caller.userId, ['email_change'], tokenHash);
            if (!token) return null;
            const { userId: id, isUsed } = token;
            if (isUsed) return repeatedProof(tx, id);
            const before = await tx.user.findUniqueOrThrow({ where: { id } });
            const { pendingEmail: email } = before;
            if (email === null) return null;
            wanted = newNamesOf({ email }, before);
            const row = await changeRow(tx, before, { email, emailVerified: true }, rules);
            await voidReset(tx, id);
            await keepUsed(tx, token, tokenHash);
            await requireStillFree(tx, id, wanted, reserved);
            return { user: toUser(row ?? before), isNew: true, isPending: true };
          }),
        () => findTaken(prisma, wanted, reserved, BigInt(caller.userId)),
      );
    },
  };
}
