import type { AccountChanges } from '../../domain/users/account.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { Prisma, User as UserRow } from '../../generated/prisma/client.ts';
import { voidReset } from './password-resets.ts';
import { ACCOUNT_COLUMNS, type AccountRow } from './rows.ts';

/**
 * Changes an account's row under its lock. A new e-mail address voids the reset token, and is not verified unless the
 * change says so.
 * @param before the row as the transaction has locked it.
 * @returns the changed row; null if it has all these values already.
 */
export async function changeRow(
  tx: Prisma.TransactionClient,
  before: UserRow,
  changes: AccountChanges,
): Promise<AccountRow | null> {
  const { username, name, email, disabled, roles } = { ...valuesOf(before), ...changes };
  const isNewAddress = email !== before.email;
  const emailVerified = changes.emailVerified ?? (before.emailVerifiedAt !== null && !isNewAddress);
  const after = { username, name, email, disabled, emailVerified, roles };
  if (JSON.stringify(after) === JSON.stringify(valuesOf(before))) return null;
  if (isNewAddress) await voidReset(tx, before.id);
  // The fast store holds neither the address nor whether it is verified.
  const isServed = servedOf(after) !== servedOf(valuesOf(before));
  const [row] = await tx.$queryRaw<[AccountRow]>`
    UPDATE users SET username = ${username}, name = ${name}, email = ${email}, roles = ${roles}::text[],
      username_skeleton = CASE WHEN username = ${username} THEN username_skeleton ELSE ${skeletonOf(username)} END,
      email_verified_at = CASE WHEN ${emailVerified} 
        THEN coalesce(CASE WHEN email = ${email} THEN email_verified_at END, now()) END,
      disabled_at = CASE WHEN ${disabled} THEN coalesce(disabled_at, now()) END,
      version = CASE WHEN ${isServed} THEN version + 1 ELSE version END,
      changed_at = CASE WHEN ${isServed} THEN clock_timestamp() ELSE changed_at END,
      pending = pending OR ${isServed}
    WHERE id = ${before.id} RETURNING ${ACCOUNT_COLUMNS}`;
  return row;
}

/** What verify and introspection answer with. */
function servedOf({ username, name, disabled, roles }: ReturnType<typeof valuesOf>): string {
  return JSON.stringify([username, name, disabled, roles]);
}

function valuesOf({ username, name, email, disabledAt, emailVerifiedAt, roles }: UserRow) {
  return {
    ...{ username, name, email, disabled: disabledAt !== null },
    ...{ emailVerified: emailVerifiedAt !== null, roles },
  };
}
