import type { Caller } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { PasswordStore } from '../passwords/password-store.ts';
import {
  normalisePassword,
  parsePassword,
  PASSWORD_MAX_LENGTH,
  requireUnguessable,
} from '../passwords/policy.ts';
import type { NewPasswordPorts } from '../passwords/ports.ts';
import { liveIds, type FinishEndings } from '../tokens/finish-endings.ts';
import { usedSince, type Lifetimes } from '../tokens/claims.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { ConfirmationSource, ConfirmPassword } from './confirm-password.ts';
import { collectFields, parseTry } from '../identifiers.ts';

interface ChangePasswordPorts extends NewPasswordPorts {
  confirmPassword: ConfirmPassword;
  passwords: Pick<PasswordStore, 'change'>;
  tokenStates: Pick<TokenStateStore, 'now'>;
  finishEndings: FinishEndings;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
}

export interface PasswordChangeRequest extends ConfirmationSource {
  currentPassword: string;
  newPassword: string;
  /** Whether long-lived tokens end too. */
  endsLongLived: boolean;
}

/**
 * Replaces the caller's password and ends the user's other sessions. The caller's stays.
 * @returns how many live tokens have ended.
 * @throws AuthError `token_not_allowed` (the caller presents an LLT), `validation_failed`, `invalid_credentials`,
 * `password_refused`, `rate_limited`, `overloaded`, `unavailable`, `invalid_token` (the caller's session has ended
 * meanwhile), `login_too_old` (the account has a second factor, and that session was opened without one)
 */
export function makeChangePassword(ports: ChangePasswordPorts) {
  const { passwords, tokenStates, finishEndings, hasher, bulkhead, lifetimes, clock, audit } = ports;

  return async function changePassword(caller: Caller, request: PasswordChangeRequest): Promise<number> {
    // A leaked LLT must not lock its owner out.
    // Stryker disable next-line all: test/attack/forged-tokens asks every operation with an LLT
    if (caller.type !== 'access') throw new AuthError('token_not_allowed');
    const { values, errors } = collectFields({
      current_password: parseTry(normalisePassword(request.currentPassword), PASSWORD_MAX_LENGTH),
      new_password: parsePassword(request.newPassword, ports.passwordMinLength),
    });
    if (errors.length > 0) throw new AuthError('validation_failed', { errors });
    const account = await ports.confirmPassword(caller, request.currentPassword, request);
    // Only now: a refusal may reveal that a guess is the owner's e-mail address.
    const owner = { ...account.user, email: account.email };
    requireUnguessable(values.new_password, owner, ports.isCommonPassword, '/new_password');

    const passwordHash = await bulkhead.run('known', request.turn, () => hasher.hash(values.new_password));
    // Fails here if the fast store is down, before anything is written.
    await tokenStates.now();
    const [userId, tokenId, at] = [caller.user.id, caller.tokenId, clock.now()];
    const ended = await passwords.change(
      { userId, tokenId, withFactor: caller.acr !== null },
      {
        passwordHash,
        version: account.passwordVersion,
        at,
        usedSince: usedSince(at, lifetimes),
        keepsLongLived: !request.endsLongLived,
      },
    );
    const tokenIds = liveIds(ended, at, lifetimes);
    // Audited before the next step, whose failure a repeat would not find.
    audit({ event: 'password.changed', userId, by: tokenId, tokenIds }, request.from);
    await finishEndings(userId, 0);
    return tokenIds.length;
  };
}

export type ChangePassword = ReturnType<typeof makeChangePassword>;
