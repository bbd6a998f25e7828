import type { TokenKey } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { Bulkhead, Share, Turn } from '../passwords/bulkhead.ts';
import type { CheckPassword } from '../passwords/check-password.ts';
import { normalisePassword, PASSWORD_MAX_LENGTH } from '../passwords/policy.ts';
import type { Guess, GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import type { PasswordHasher } from '../passwords/ports.ts';
import type { RevocationStore, TokenStore } from '../tokens/ports.ts';
import { putCreated } from '../tokens/put-created.ts';
import type { Lifetimes } from '../tokens/claims.ts';
import { parseDevice } from '../users/device-name.ts';
import { attemptedName, collectFields, parseLoginName, parseTry } from '../identifiers.ts';
import { rememberDevice, type KnownDeviceStore } from '../users/known-devices.ts';
import type { LoginAccount, UserStore } from '../users/ports.ts';
import type { LoginRefusal } from '../refusal-reasons.ts';
import type { User } from '../user.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import { initialState } from './rotation.ts';
import type { SessionGrant } from './session.ts';

interface LogInPorts {
  users: Pick<UserStore, 'findForLogin' | 'replaceHash'>;
  tokens: Pick<TokenStore, 'addSession'>;
  revocations: Pick<RevocationStore, 'settle'>;
  tokenStates: Pick<TokenStateStore, 'preparePut' | 'put' | 'revoke'>;
  knownDevices: KnownDeviceStore;
  limitGuess: LimitGuess;
  hasher: Pick<PasswordHasher, 'hash' | 'isOutdated'>;
  bulkhead: Pick<Bulkhead, 'run'>;
  checkPassword: CheckPassword;
  lifetimes: Lifetimes;
  /** MAX_SESSIONS_PER_USER. */
  maxSessions: number;
  clock: Clock;
  audit: Audit;
  /** Keyed hash of a name, for the audit trail. */
  hashName: (name: string) => string;
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
 * Opens a session.
 * @throws AuthError `validation_failed`, `invalid_credentials`, `rate_limited`, `overloaded`, `unavailable`
 */
export function makeLogIn(ports: LogInPorts) {
  const { tokens, tokenStates, lifetimes, maxSessions, clock, audit } = ports;

  return async function logIn(request: LogInRequest): Promise<SessionGrant> {
    const device = parseRequest(request);
    const found = await findAccount(ports, request);
    const guess = guessOf(request, found);
    const account = await ports.limitGuess(guess, (isKnown, earlier) =>
      openAccount(ports, request, found, { share: isKnown ? 'known' : 'login', earlier }),
    );
    const { user } = account;

    // Fails here if the fast store is down, before anything is written.
    const generation = await tokenStates.preparePut(user.id);
    const createdAt = clock.now();
    const state = initialState(generation, request.caller);
    const limits = {
      limit: maxSessions,
      liveSince: generation - lifetimes.refreshToken * 1_000_000,
      createdSince: lifetimes.session === 0 ? 0 : createdAt - lifetimes.session * 1000,
      passwordVersion: account.passwordVersion,
    };
    const added = await tokens
      .addSession(user.id, { name: device, createdAt, state }, limits)
      .catch((error: unknown) => {
        // The password was changed since it was checked.
        if (error instanceof AuthError && error.code === 'invalid_credentials')
          return refuse(ports, request, 'password', user);
        throw error;
      });
    if (!added) return refuse(ports, request, 'disabled', user);
    for (const tokenId of added.replaced) {
      await finishReplacement(ports, { userId: user.id, tokenId });
      audit({ event: 'session.replaced', userId: user.id, tokenId, by: added.id }, request.from);
    }

    const record = {
      id: added.id,
      userId: user.id,
      type: 'session' as const,
      name: device,
      createdAt,
      state,
    };
    await putCreated(tokenStates, record, added.user, generation);
    audit({ event: 'session.created', userId: user.id, tokenId: added.id }, request.from);
    await rememberDevice(ports.knownDevices, user.id, request.caller);
    await renewHash(ports, account, request);
    return { user: added.user, tokenId: added.id, generation, createdAt, withFactor: false };
  };
}

export type LogIn = ReturnType<typeof makeLogIn>;

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
function guessOf({ username, origin, from }: LogInRequest, found: LoginAccount | null): Guess {
  const account = found && { userId: found.user.id, knownCallers: found.knownCallers };
  return { name: attemptedName(username), account, origin, from };
}

/** Every failure does the same work: neither the answer nor its time reveals which names exist. */
async function openAccount(
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
  if (!found) return refuse(ports, request, 'unknown');
  if (!matches) return refuse(ports, request, 'password', found.user);
  if (found.user.disabled) return refuse(ports, request, 'disabled', found.user);
  return found;
}

/** The replaced session is already revoked and pending on record: if this fails, the next sweep finishes it. */
async function finishReplacement({ tokenStates, revocations }: LogInPorts, key: TokenKey): Promise<void> {
  try {
    await tokenStates.revoke(key);
    await revocations.settle([key.tokenId]);
  } catch (error) {
    if (!(error instanceof AuthError && error.code === 'unavailable')) throw error;
  }
}

function refuse(
  { audit, hashName }: LogInPorts,
  { username, from }: LogInRequest,
  reason: LoginRefusal,
  user?: User,
): never {
  const subject = user ? { userId: user.id } : { nameHash: hashName(attemptedName(username)) };
  audit({ event: 'login.failed', reason, ...subject }, from);
  throw new AuthError('invalid_credentials', { reason });
}

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
