import type { Caller } from '../principal.ts';
import type { Audit, AuditLimit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError, type FieldError } from '../errors.ts';
import { normalisePassword, PASSWORD_MAX_LENGTH } from '../passwords/policy.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { Budget } from '../limits/budget.ts';
import type { ConfirmationSource, ConfirmPassword } from './confirm-password.ts';
import type { FinishUserChange } from './finish-user-change.ts';
import { fieldError, parseTry } from '../identifiers.ts';
import { MAIL_WINDOW } from '../mail-kinds.ts';
import { parseFields } from './account-fields.ts';
import type { NewNames } from './new-names.ts';
import type { OwnChanges, UserStore } from './ports.ts';
import { refuseTaken } from './taken.ts';
import type { User } from '../user.ts';

interface ChangeProfilePorts {
  users: Pick<UserStore, 'findTaken' | 'change'>;
  confirmPassword: ConfirmPassword;
  tokenStates: Pick<TokenStateStore, 'now'>;
  finishUserChange: FinishUserChange;
  newNames: NewNames;
  /** RATE_LIMIT_PROFILE. */
  budget: Budget;
  audit: Audit;
  auditLimit: AuditLimit;
}

export interface ProfileChangeRequest extends ConfirmationSource {
  /** New names and a locale as given; what is absent stays. */
  names: OwnChanges;
  /** As it was sent. Needed for a username or an e-mail address. */
  currentPassword: string | undefined;
}

/**
 * Changes the caller's names and locale. With EMAIL_VERIFICATION, a new address only becomes pending. A repeat is safe.
 * @throws AuthError `token_not_allowed` (the caller presents an LLT), `validation_failed`, `invalid_credentials`,
 * `username_taken`, `email_taken`, `rate_limited`, `overloaded`, `unavailable`, `invalid_token` (the caller's session
 * has ended meanwhile), `login_too_old` (the account has a second factor, and that session was opened without one)
 */
export function makeChangeProfile(ports: ChangeProfilePorts) {
  const { users, confirmPassword, tokenStates, finishUserChange, audit } = ports;

  async function change(
    caller: Caller,
    { names, password }: ParsedChange,
    request: ProfileChangeRequest,
  ): Promise<User> {
    const [userId, tokenId] = [caller.user.id, caller.tokenId];
    const account = password === undefined ? null : await confirmPassword(caller, password, request);
    if (account) {
      // Checked first only for its answer; the unique constraints decide.
      refuseTaken(await users.findTaken(names, userId));
    }
    // Fails here if the fast store is down, before anything is written.
    await tokenStates.now();
    // A name for people does not decide who can log in.
    const withFactor = isForLogin(names) ? caller.acr !== null : null;
    const { user, isChanged, isPending } = await users
      .change({ userId, tokenId, withFactor }, names, account?.passwordVersion ?? null)
      .catch((error: unknown) => {
        noteMails(userId, error, request.from);
        throw error;
      });
    const fields = Object.keys(names).filter((field) => !(isPending && field === 'email'));
    if (isChanged)
      audit({ event: 'user.changed', userId, by: tokenId, fields: fields.join(',') }, request.from);
    if (isPending) audit({ event: 'email.change_requested', userId, by: tokenId }, request.from);
    // Also if nothing has changed: the first try may have failed here.
    await finishUserChange(user);
    return user;
  }

  /** PostgreSQL counts the mails of an account and of an address, so the store refuses what is too much. */
  function noteMails(userId: number, error: unknown, from: Sourced): void {
    if (!(error instanceof AuthError) || error.reason !== 'mails') return;
    const windowSeconds = MAIL_WINDOW / 1000;
    const event = { event: 'limit.reached', limit: 'mails', windowSeconds, userId } as const;
    ports.auditLimit(`mails:${userId}`, event, from);
  }

  return async function changeProfile(caller: Caller, request: ProfileChangeRequest): Promise<User> {
    // A leaked LLT must not change how its owner logs in.
    // Stryker disable next-line all: test/attack/forged-tokens asks every operation with an LLT
    if (caller.type !== 'access') throw new AuthError('token_not_allowed');
    const parsed = parseRequest(request, ports);
    return ports.budget({ userId: caller.user.id }, request.from, () => change(caller, parsed, request));
  };
}

export type ChangeProfile = ReturnType<typeof makeChangeProfile>;

interface ParsedChange {
  /** In canonical form. */
  names: OwnChanges;
  password: string | undefined;
}

function parseRequest(
  { names, currentPassword }: ProfileChangeRequest,
  { newNames }: ChangeProfilePorts,
): ParsedChange {
  const { values: canonical, errors } = parseFields(names, newNames);
  errors.push(...passwordErrors(currentPassword, isForLogin(names)));
  if (Object.keys(names).length === 0)
    errors.push({ path: '', code: 'required', message: 'must have name, username, email or locale' });
  if (errors.length > 0) throw new AuthError('validation_failed', { errors });
  return { names: canonical, password: currentPassword };
}

/** Whether the names decide how the user logs in. */
function isForLogin({ username, email }: OwnChanges): boolean {
  return username !== undefined || email !== undefined;
}

function passwordErrors(currentPassword: string | undefined, isRequired: boolean): FieldError[] {
  const path = '/current_password';
  if (currentPassword === undefined)
    return isRequired ? [{ path, code: 'required', message: 'is required with username and email' }] : [];
  const tried = parseTry(normalisePassword(currentPassword), PASSWORD_MAX_LENGTH);
  return tried.ok ? [] : [fieldError(path, tried)];
}
