import { canonicalAddress, givenAddress, storedAddress } from '../../domain/address.ts';
import { AuthError, type FieldProblem } from '../../domain/errors.ts';
import type { AccountChanges, Reservation } from '../../domain/users/account.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import { Prisma, type User as UserRow } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { reserveNames } from './names.ts';
import { voidReset } from './password-resets.ts';
import { wantMail, wantNotice } from './wanted-mails.ts';
import { ACCOUNT_COLUMNS, assign, GIVEN_ADDRESS, USER_COLUMNS, type AccountRow } from './rows.ts';

/** All that a change may set. */
type Values = Required<AccountChanges>;

/** What becomes of addresses. */
export interface AddressRules {
  /** EMAIL_VERIFICATION: a new address that is not verified wants a mail that proves it, in the same commit. */
  wantsProof: boolean;
  /** NOTICES: the address that was in force wants a mail that tells of the change. */
  notices: boolean;
  /** Of an address that was verified, for the account that leaves it. null where no address changes. */
  reservation: Reservation | null;
}

export const NO_ADDRESS_CHANGES: AddressRules = { wantsProof: false, notices: false, reservation: null };

/**
 * Changes an account's row under its lock. A new e-mail address voids the reset tokens, and the old one is reserved for the
 * account if it was verified. The new one, or another spelling, is not verified unless the change says so. Naming any
 * address, also the one in force, withdraws a pending one; marking one as verified says that mails reach it.
 * @param before the row as the transaction has locked it.
 * @returns the changed row; null if it has all these values already.
 */
export async function changeRow(
  tx: AccountTransaction,
  before: UserRow,
  changes: AccountChanges,
  { wantsProof, notices, reservation }: AddressRules,
): Promise<AccountRow | null> {
  const { username, name, email, externalId, disabled, roles, locale } = { ...valuesOf(before), ...changes };
  const stored = givenAddress(before);
  const isNewSpelling = email !== stored;
  const isNewAddress = canonicalAddress(email) !== canonicalAddress(stored);
  const isVerified = before.emailVerifiedAt !== null && !isNewSpelling;
  const emailVerified = changes.emailVerified ?? isVerified;
  const after: Values = { username, name, email, externalId, disabled, emailVerified, roles, locale };
  const isWithdrawn = changes.email !== undefined && before.pendingEmail !== null;
  const isReachable = changes.emailVerified === true && before.undeliverableAt !== null;
  if (!isWithdrawn && !isReachable && JSON.stringify(after) === JSON.stringify(valuesOf(before))) return null;
  if (isNewAddress) {
    await voidReset(tx, before.id);
    if (before.emailVerifiedAt !== null && reservation)
      await reserveNames(tx, reservation.hashes({ email: stored }), reservation.grace, before.id);
  }
  if (notices && isNewSpelling) await wantNotice(tx, before.id, 'email_changed');
  const [row] = await tx.$queryRaw<[AccountRow]>`
    UPDATE users SET ${assign(USER_COLUMNS, columnsOf(after, { isNewSpelling, isWithdrawn, isReachable }))}
    WHERE id = ${before.id} RETURNING ${ACCOUNT_COLUMNS}`;
  if (wantsProof && isNewSpelling && !emailVerified && !disabled)
    await wantMail(tx, before.id, 'email_verification');
  return row;
}

/**
 * Accounts are found by addresses that are compared loosely, but a service has proved one of which mail servers may
 * know every code point.
 * @throws AuthError `validation_failed` if the change marks the present address as verified without naming it exactly
 */
export function requireStoredSpelling(
  before: UserRow,
  { email: named, emailVerified }: AccountChanges,
): void {
  const stored = givenAddress(before);
  if (emailVerified !== true || named === stored) return;
  const isAnother = named !== undefined && canonicalAddress(named) !== canonicalAddress(stored);
  if (isAnother || (named === undefined && before.emailVerifiedAt !== null)) return;
  const problem: FieldProblem =
    named === undefined
      ? { code: 'required', message: 'is required with email_verified: true' }
      : {
          code: 'not_allowed',
          message: 'is another spelling than the stored one: change it first, then mark it as verified',
        };
  throw new AuthError('validation_failed', { errors: [{ path: '/email', ...problem }] });
}

const KEPT = null;

/**
 * What a change writes. Services see all of it, so each change has a new version. The columns of an address that stays
 * are not written again: 1.0.0 let accounts have addresses that are another account's by today's rules.
 */
function columnsOf(
  { username, name, email, externalId, disabled, emailVerified, roles, locale }: Values,
  {
    isNewSpelling,
    isWithdrawn,
    isReachable,
  }: Record<'isNewSpelling' | 'isWithdrawn' | 'isReachable', boolean>,
) {
  const { sql } = Prisma;
  const stored = storedAddress(email);
  const written = (value: Prisma.Sql) => (isNewSpelling ? value : KEPT);
  return {
    username: sql`${username}`,
    skeleton: sql`CASE WHEN username = ${username} THEN username_skeleton ELSE ${skeletonOf(username)} END`,
    name: sql`${name}`,
    email: written(sql`${stored.email}`),
    emailGiven: written(sql`${stored.emailGiven}`),
    emailKey: written(sql`${stored.emailKey}`),
    externalId: sql`${externalId}`,
    // Another time than before tells the trigger that the address can be reached.
    emailVerifiedAt: sql`CASE WHEN ${emailVerified} THEN coalesce(
      CASE WHEN ${GIVEN_ADDRESS} = ${email} AND NOT ${isReachable} THEN email_verified_at END, now()) END`,
    disabledAt: sql`CASE WHEN ${disabled} THEN coalesce(disabled_at, now()) END`,
    enabledAt: sql`CASE WHEN disabled_at IS NULL OR ${disabled} THEN enabled_at ELSE clock_timestamp() END`,
    roles: sql`${roles}::text[]`,
    version: sql`version + 1`,
    changedAt: sql`clock_timestamp()`,
    pending: sql`true`,
    id: KEPT,
    createdAt: KEPT,
    deletedAt: KEPT,
    factorSince: KEPT,
    passkeyHandle: KEPT,
    pendingEmail: isWithdrawn ? sql`NULL` : KEPT,
    pendingKey: isWithdrawn ? sql`NULL` : KEPT,
    locale: sql`${locale}`,
    undeliverableAt: isReachable ? sql`NULL` : KEPT,
    passwordHash: KEPT,
    passwordVersion: KEPT,
    importedHash: KEPT,
    importedCost: KEPT,
  } satisfies Record<keyof UserRow, Prisma.Sql | null>;
}

function valuesOf(row: UserRow): Values {
  const { username, name, externalId, disabledAt, emailVerifiedAt, roles, locale } = row;
  return {
    username,
    name,
    email: givenAddress(row),
    externalId,
    disabled: disabledAt !== null,
    emailVerified: emailVerifiedAt !== null,
    roles,
    locale,
  };
}
