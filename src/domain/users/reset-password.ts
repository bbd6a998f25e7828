import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { fieldError } from '../identifiers.ts';
import type { Turn } from '../passwords/bulkhead.ts';
import type { GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import type { PasswordStore, ResetAccount } from '../passwords/password-store.ts';
import { parsePassword, requireUnguessable } from '../passwords/policy.ts';
import type { NewPasswordPorts } from '../passwords/ports.ts';
import { hashOneTimeToken } from '../passwords/one-time-token.ts';
import { liveIds, type FinishEndings } from '../tokens/finish-endings.ts';
import { usedSince, type Lifetimes } from '../tokens/claims.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { FinishUserChange } from './finish-user-change.ts';

interface ResetPasswordPorts extends NewPasswordPorts {
  passwords: Pick<PasswordStore, 'findReset' | 'redeem'>;
  tokenStates: Pick<TokenStateStore, 'now'>;
  finishEndings: FinishEndings;
  finishUserChange: FinishUserChange;
  limitGuess: LimitGuess;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
}

export interface ResetPasswordRequest {
  resetToken: string;
  password: string;
  turn: Turn;
  origin: GuessOrigin;
  from: Sourced;
}

/**
 * Redeems a reset token: sets a new password and ends all the user's tokens. One that was mailed proves the address, too. A
 * disabled account stays disabled. A refused password does not use the token up.
 * @throws AuthError `invalid_reset_token`, `validation_failed`, `password_refused`, `rate_limited`, `overloaded`,
 * `unavailable`
 */
export function makeResetPassword(ports: ResetPasswordPorts) {
  const { passwords, tokenStates, finishEndings, finishUserChange, limitGuess } = ports;
  const { hasher, bulkhead, lifetimes, clock, audit } = ports;

  return async function resetPassword(request: ResetPasswordRequest): Promise<void> {
    const { resetToken, turn, origin, from } = request;
    const tokenHash = hashOneTimeToken(resetToken);
    // A token that is not good costs a look-up, and no hash of a password.
    const failure = () => ({ event: 'password.reset_failed' }) as const;
    const guess = { name: null, account: null, origin, from, failure };
    const account = await limitGuess(guess, () => passwords.findReset(tokenHash).then(found));
    const password = parseNewPassword(request.password, account, ports);
    const passwordHash = await bulkhead.run('known', turn, () => hasher.hash(password));
    // Fails here if the fast store is down, before the token is used up.
    await tokenStates.now();
    const at = clock.now();
    const change = { passwordHash, at, usedSince: usedSince(at, lifetimes) };
    // Another request may have used the token up meanwhile.
    const { userId, proved, ended, before } = await limitGuess({ ...guess, takesNoSlot: true }, () =>
      passwords.redeem(tokenHash, change).then(found),
    );
    audit({ event: 'password.reset', userId, tokenIds: liveIds(ended, at, lifetimes) }, from);
    if (proved) audit({ event: 'email.verified', userId }, from);
    await finishEndings(userId, before ?? 0);
    if (proved) await finishUserChange(proved);
  };
}

/** Of a token that is good. */
function found<Result>(result: Result | null): Result {
  if (result === null) throw new AuthError('invalid_reset_token');
  return result;
}

export type ResetPassword = ReturnType<typeof makeResetPassword>;

function parseNewPassword(
  raw: string,
  account: ResetAccount,
  { passwordMinLength, isCommonPassword }: ResetPasswordPorts,
): string {
  const parsed = parsePassword(raw, passwordMinLength);
  if (!parsed.ok) throw new AuthError('validation_failed', { errors: [fieldError('/password', parsed)] });
  requireUnguessable(parsed.value, account, isCommonPassword);
  return parsed.value;
}
