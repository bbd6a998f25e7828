import { canonicalAddress, givenAddress, storedAddress } from '../../domain/address.ts';
import { AuthError, type FieldProblem } from '../../domain/errors.ts';
import type { AccountChanges } from '../../domain/users/account.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import { Prisma, type User as UserRow } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { voidReset } from './password-resets.ts';
import { wantMail } from './wanted-mails.ts';
import { ACCOUNT_COLUMNS, assign, GIVEN_ADDRESS, USER_COLUMNS, type AccountRow } from './rows.ts';

/** All that a change may set. */
type Values = Required<AccountChanges>;

/**
 * Changes an account's row under its lock. A new e-mail address voids the reset tokens. It, or another spelling of the
 * address, is not verified unless the change says so.
 * @param before the row as the transaction has locked it.
 * @returns the changed row; null if it has all these values already.
 * @param wantsProof whether an address that is new, and not verified, wants a mail that proves it, in the same commit.
 * @throws AuthError `validation_failed` if the change marks the address as verified without naming it exactly
 */
export async function changeRow(
  tx: AccountTransaction,
  before: UserRow,
  changes: AccountChanges,
  wantsProof: boolean,
): Promise<AccountRow | null> {
  const { username, name, email, externalId, disabled, roles, locale } = { ...valuesOf(before), ...changes };
  const stored = givenAddress(before);
  const isNewSpelling = email !== stored;
  const isNewAddress = canonicalAddress(email) !== canonicalAddress(stored);
  const isVerified = before.emailVerifiedAt !== null && !isNewSpelling;
  if (changes.emailVerified === true && !isVerified && !isNewAddress)
    requireStoredSpelling(stored, changes.email);
  const emailVerified = changes.emailVerified ?? isVerified;
  const after: Values = { username, name, email, externalId, disabled, emailVerified, roles, locale };
  if (JSON.stringify(after) === JSON.stringify(valuesOf(before))) return null;
  if (isNewAddress) await voidReset(tx, before.id);
  // Of these, neither the address, nor whether it is verified, nor the external id. Services that keep a copy of the
  // locale hear of it by the version.
  const isServed = servedOf(after) !== servedOf(valuesOf(before));
  const [row] = await tx.$queryRaw<[AccountRow]>`
    UPDATE users SET ${assign(USER_COLUMNS, columnsOf(after, { isServed, isNewSpelling }))}
    WHERE id = ${before.id} RETURNING ${ACCOUNT_COLUMNS}`;
  if (wantsProof && isNewSpelling && !emailVerified && !disabled)
    await wantMail(tx, before.id, 'email_verification');
  return row;
}

/**
 * Accounts are found by addresses that are compared loosely, but a service has proved one of which mail servers may
 * know every code point.
 * @throws AuthError `validation_failed`
 */
function requireStoredSpelling(stored: string, named: string | undefined): void {
  if (named === stored) return;
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
 * What a change writes. The columns of an address that stays are not written again: 1.0.0 let accounts have addresses
 * that are another account's by today's rules.
 */
function columnsOf(
  { username, name, email, externalId, disabled, emailVerified, roles, locale }: Values,
  { isServed, isNewSpelling }: { isServed: boolean; isNewSpelling: boolean },
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
    emailVerifiedAt: sql`CASE WHEN ${emailVerified}
      THEN coalesce(CASE WHEN ${GIVEN_ADDRESS} = ${email} THEN email_verified_at END, now()) END`,
    disabledAt: sql`CASE WHEN ${disabled} THEN coalesce(disabled_at, now()) END`,
    enabledAt: sql`CASE WHEN disabled_at IS NULL OR ${disabled} THEN enabled_at ELSE clock_timestamp() END`,
    roles: sql`${roles}::text[]`,
    version: isServed ? sql`version + 1` : KEPT,
    changedAt: isServed ? sql`clock_timestamp()` : KEPT,
    pending: sql`pending OR ${isServed}`,
    id: KEPT,
    createdAt: KEPT,
    deletedAt: KEPT,
    factorSince: KEPT,
    pendingEmail: KEPT,
    pendingKey: KEPT,
    locale: sql`${locale}`,
    undeliverableAt: KEPT,
    passwordHash: KEPT,
    passwordVersion: KEPT,
    importedHash: KEPT,
    importedCost: KEPT,
  } satisfies Record<keyof UserRow, Prisma.Sql | null>;
}

/** What verify and introspection answer with, and what services are told of besides. */
function servedOf({ username, name, disabled, roles, locale }: Values): string {
  return JSON.stringify([username, name, disabled, roles, locale]);
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
