import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { LOGIN_TOKEN_TTL, type LoginTokens, type PasswordProof } from '../factors/login-token.ts';
import type { FactorStore } from '../factors/ports.ts';
import type { Bulkhead, Share, Turn } from '../passwords/bulkhead.ts';
import type { CheckPassword } from '../passwords/check-password.ts';
import { normalisePassword, PASSWORD_MAX_LENGTH } from '../passwords/policy.ts';
import type { Guess, GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import type { PasswordHasher } from '../passwords/ports.ts';
import { parseDevice } from '../users/device-name.ts';
import { attemptedName, collectFields, parseLoginName, parseTry } from '../identifiers.ts';
import type { LoginAccount, UserStore } from '../users/ports.ts';
import { LOGIN_REFUSALS, type LoginRefusal } from '../refusal-reasons.ts';
import type { SecondStep, SecondStepNeeded } from '../second-step.ts';
import type { OpenSession } from './open-session.ts';
import type { SessionGrant } from './session.ts';

interface LogInPorts {
  users: Pick<UserStore, 'findForLogin' | 'replaceHash'>;
  factors: Pick<FactorStore, 'findAccount'>;
  loginTokens: Pick<LoginTokens, 'issue'>;
  openSession: OpenSession;
  limitGuess: LimitGuess;
  hasher: Pick<PasswordHasher, 'hash' | 'isOutdated'>;
  bulkhead: Pick<Bulkhead, 'run'>;
  checkPassword: CheckPassword;
  clock: Clock;
  audit: Audit;
  /** Keyed hash of a name, for the audit trail. */
  auditHash: (name: string) => string;
}

export interface LogInRequest {
  /** A username, or an e-mail address if it contains an `@`. */
  username: string;
  password: string;
  device: string;
  /** Keyed hash of address and User-Agent. */
  caller: string;
  turn: Turn;
  origin: GuessOrigin;
  from: Sourced;
}

/**
 * Proves the account by its password, and opens a session if it has no second factor.
 * @throws AuthError `validation_failed`, `invalid_credentials`, `rate_limited`, `overloaded`, `unavailable`;
 * `second_factor_required` with what the second step takes
 */
export function makeLogIn(ports: LogInPorts) {
  return async function logIn(request: LogInRequest): Promise<SessionGrant> {
    const device = parseRequest(request);
    const found = await findAccount(ports, request);
    const guess = guessOf(ports, request, found);
    const account = await ports.limitGuess(guess, (isKnown, earlier) =>
      proveAccount(ports, request, found, { share: isKnown ? 'known' : 'login', earlier }),
    );
    // Outside the limit: a right password is no failure, unless it or the account has changed since.
    const opened = await ports.limitGuess({ ...guess, takesNoSlot: true }, () =>
      openOrAsk(ports, request, account, device),
    );
    // After a session, or the question for a factor: either means that the password was right.
    await renewHash(ports, account, request);
    if ('loginToken' in opened) throw new AuthError('second_factor_required', { secondStep: opened });
    return opened;
  };
}

export type LogIn = ReturnType<typeof makeLogIn>;

/** @returns what the second step takes, if the account has a factor. Only the commit that would open a session knows that.
 */
async function openOrAsk(
  ports: LogInPorts,
  request: LogInRequest,
  { user, passwordVersion, enabledAt }: LoginAccount,
  device: string,
): Promise<SessionGrant | SecondStepNeeded> {
  const password = { userId: user.id, passwordVersion, enabledAt };
  const { caller, origin, from } = request;
  const opened = await ports
    .openSession({ password, factor: null, device, caller, origin, from })
    .catch((error: unknown) => {
      const code = error instanceof AuthError ? error.code : null;
      // The password was changed since it was checked.
      if (code === 'invalid_credentials') throw refused('password');
      if (code !== 'second_factor_required') throw error;
      return secondStepOf(ports, password, from);
    });
  if (!opened) throw refused('disabled');
  return opened;
}

/** @returns null if the account was deleted meanwhile. @throws AuthError `unavailable` */
async function secondStepOf(
  { factors, loginTokens, clock, audit }: LogInPorts,
  password: Omit<PasswordProof, 'issuedAt'>,
  from: Sourced,
): Promise<SecondStepNeeded | null> {
  const account = await factors.findAccount(password.userId);
  if (!account) return null;
  const methods: SecondStep[] = [];
  if (account.totp) methods.push('totp');
  if (account.codesLeft > 0) methods.push('recovery_code');
  if (account.passkeys.usable > 0) methods.push('passkey');
  const issuedAt = clock.now();
  audit({ event: 'login.factor_asked', userId: password.userId }, from);
  return {
    loginToken: loginTokens.issue({ ...password, issuedAt }),
    methods,
    expiresAt: issuedAt + LOGIN_TOKEN_TTL,
  };
}

/**
 * Accepts any text within bounds as a try, so that a change of policy locks no user out.
 * @returns the device's name.
 */
function parseRequest({ username, password, device }: LogInRequest): string {
  const { values, errors } = collectFields({
    username: parseTry(username, 254),
    password: parseTry(normalisePassword(password), PASSWORD_MAX_LENGTH),
    device: parseDevice(device),
  });
  if (errors.length > 0) throw new AuthError('validation_failed', { errors });
  return values.device;
}

async function findAccount({ users }: LogInPorts, request: LogInRequest): Promise<LoginAccount | null> {
  const name = parseLoginName(request.username);
  return name && users.findForLogin(name);
}

/** A guess at any name, even an impossible one, so that limits do not reveal which names exist. */
function guessOf(
  { auditHash }: LogInPorts,
  { username, origin, from }: LogInRequest,
  found: LoginAccount | null,
): Guess {
  const name = attemptedName(username);
  const account = found && { userId: found.user.id, knownCallers: found.knownCallers };
  const failure: Guess['failure'] = (reason) => ({
    event: 'login.failed',
    reason: LOGIN_REFUSALS.find((each) => each === reason) ?? 'password',
    ...(found ? { userId: found.user.id } : { nameHash: auditHash(name) }),
  });
  return { name, account, origin, from, failure };
}

/** Every failure does the same work: neither the answer nor its time reveals which names exist. */
async function proveAccount(
  ports: LogInPorts,
  request: LogInRequest,
  found: LoginAccount | null,
  tried: { share: Share; earlier: number },
): Promise<LoginAccount> {
  const matches = await ports.checkPassword({
    hash: found?.passwordHash ?? null,
    password: request.password,
    mayOpen: found?.user.disabled === false,
    ...tried,
    turn: request.turn,
  });
  if (!found) throw refused('unknown');
  if (!matches) throw refused('password');
  if (found.user.disabled) throw refused('disabled');
  return found;
}

const refused = (reason: LoginRefusal) => new AuthError('invalid_credentials', { reason });

/**
 * Hashes the password again if the cost settings have changed, or the hash is another system's: only a login has the
 * plain password. If the queue is full or the database is down, a later login does it: this one has succeeded.
 */
async function renewHash(
  { users, hasher, bulkhead }: LogInPorts,
  { user, passwordHash }: LoginAccount,
  { password, turn }: LogInRequest,
): Promise<void> {
  if (!hasher.isOutdated(passwordHash, password)) return;
  try {
    const renewed = await bulkhead.run('known', turn, () => hasher.hash(normalisePassword(password)));
    await users.replaceHash(user.id, passwordHash, renewed);
  } catch (error) {
    if (!(error instanceof AuthError)) throw error;
  }
}
