import { AuthError } from '../../domain/errors.ts';
import type { FactorCaller } from '../../domain/factors/ports.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { lockCaller, type LockedUser } from './caller-lock.ts';
import { wantNotice } from './wanted-mails.ts';

/** What changes of an account's own second factors have in common, of whatever kind they are. */

export interface FactorSettings {
  /** NOTICES: whether a change of the factors wants a notice. */
  notices: boolean;
  /**
   * EMAIL_VERIFICATION: an account gets none before its address is verified. Otherwise whoever signs up with
   * another's address could keep its owner out, since a factor stays after a reset.
   */
  needsAddress: boolean;
  /** WEBAUTHN_RP_ID; null if passkeys are off. */
  rpId: string | null;
}

export const NO_FACTOR_SETTINGS: FactorSettings = { notices: false, needsAddress: false, rpId: null };

/**
 * As `lockCaller`. If the account has a factor, the caller's session must also be recent.
 * @param passwordVersion of the password that the caller has proved to know.
 * @throws AuthError `invalid_token`, `login_too_old`, `invalid_credentials`
 */
export async function lockProven(
  tx: AccountTransaction,
  caller: FactorCaller,
  passwordVersion?: number,
): Promise<LockedUser> {
  const locked = await lockCaller(tx, caller);
  if (passwordVersion !== undefined && locked.passwordVersion !== passwordVersion)
    throw new AuthError('invalid_credentials', { reason: 'password' });
  if (locked.factorSince !== null && caller.createdAt < caller.openedSince)
    throw new AuthError('login_too_old');
  return locked;
}

/**
 * As `lockProven`, for who adds a factor.
 * @throws AuthError also `email_not_verified`
 */
export async function lockToAdd(
  tx: AccountTransaction,
  caller: FactorCaller,
  { needsAddress }: FactorSettings,
  passwordVersion?: number,
): Promise<LockedUser> {
  const locked = await lockProven(tx, caller, passwordVersion);
  if (needsAddress && !locked.user.emailVerified) throw new AuthError('email_not_verified');
  return locked;
}

/** Adds a factor that counts for nothing yet, in place of another such one. @returns its id. */
export async function addUnconfirmed(
  tx: AccountTransaction,
  caller: FactorCaller,
  factor: { type: string; name: string; createdAt: number; keyId: string; secret: Uint8Array },
): Promise<number> {
  const userId = BigInt(caller.userId);
  await tx.factor.deleteMany({ where: { userId, confirmedAt: null } });
  const { id } = await tx.factor.create({
    data: {
      ...factor,
      userId,
      createdAt: new Date(factor.createdAt),
      secret: new Uint8Array(factor.secret),
      sessionId: BigInt(caller.tokenId),
    },
    select: { id: true },
  });
  return Number(id);
}

/**
 * What follows a confirmation, in its transaction. The account's first factor brings recovery codes.
 * @returns whether it is the first.
 */
export async function noteAdded(
  tx: AccountTransaction,
  { user, factorSince }: LockedUser,
  { notices }: FactorSettings,
  { at, codeHashes }: { at: number; codeHashes: readonly Uint8Array[] },
): Promise<{ isFirst: boolean }> {
  const id = BigInt(user.id);
  if (notices) await wantNotice(tx, id, 'factor_added');
  if (factorSince !== null) return { isFirst: false };
  await writeCodes(tx, id, codeHashes);
  await tx.user.update({ where: { id }, data: { factorSince: new Date(at) } });
  return { isFirst: true };
}

export async function writeCodes(
  tx: AccountTransaction,
  userId: bigint,
  codeHashes: readonly Uint8Array[],
): Promise<void> {
  await tx.recoveryCode.deleteMany({ where: { userId } });
  await tx.recoveryCode.createMany({
    data: codeHashes.map((codeHash) => ({ userId, codeHash: new Uint8Array(codeHash) })),
  });
}
