import type { Audit } from '../audit/event.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { Bulkhead } from '../passwords/bulkhead.ts';
import { normalisePassword, PASSWORD_MAX_LENGTH } from '../passwords/policy.ts';
import type { PasswordHasher } from '../passwords/ports.ts';
import type { RevocationStore, TokenStore } from '../tokens/ports.ts';
import { putCreated } from '../tokens/put-created.ts';
import type { Lifetimes } from '../tokens/token-record.ts';
import { collectFields, lengthOf, parseLabel, parseLoginName, type Parsed } from '../users/identifiers.ts';
import type { UserStore } from '../users/ports.ts';
import type { User } from '../users/user.ts';
import type { SessionStateStore, TokenKey } from './ports.ts';
import { initialState } from './rotation.ts';
import type { SessionGrant } from './session.ts';

interface LogInPorts {
  users: Pick<UserStore, 'findForLogin' | 'replaceHash'>;
  tokens: Pick<TokenStore, 'addSession'>;
  revocations: Pick<RevocationStore, 'settle'>;
  states: Pick<SessionStateStore, 'now' | 'put' | 'revoke'>;
  hasher: PasswordHasher;
  bulkhead: Pick<Bulkhead, 'run'>;
  /** A hash of the configured cost that no password opens, for names that nobody has. */
  dummyHash: Uint8Array;
  lifetimes: Lifetimes;
  /** MAX_SESSIONS_PER_USER. */
  maxSessions: number;
  clock: Clock;
  audit: Audit;
}

export interface LogInRequest {
  /** A username, or an e-mail address when it holds an `@`. */
  username: string;
  password: string;
  device: string;
  /** Keyed hash of address and User-Agent. */
  client: string;
}

/**
 * Opens a session.
 * @throws AuthError `validation_failed`, `invalid_credentials`, `overloaded`, `unavailable`
 */
export function makeLogIn(ports: LogInPorts) {
  const { tokens, states, lifetimes, maxSessions, clock, audit } = ports;

  return async function logIn(request: LogInRequest): Promise<SessionGrant> {
    const device = parseRequest(request);
    const account = await checkPassword(ports, request);
    const { user } = account;

    // Fails here when the fast store is away, before anything is written.
    const generation = await states.now();
    const createdAt = clock.now();
    const state = initialState(generation, request.client);
    const added = await tokens.addSession(
      user.id,
      { name: device, createdAt, state },
      {
        limit: maxSessions,
        liveSince: generation - lifetimes.refreshToken * 1_000_000,
        createdSince: lifetimes.session === 0 ? 0 : createdAt - lifetimes.session * 1000,
      },
    );
    if (!added) return refuse(ports, 'disabled', user);
    for (const tokenId of added.replaced) {
      await finishReplacement(ports, { userId: user.id, tokenId });
      audit({ event: 'session.replaced', userId: user.id, tokenId, by: added.id });
    }

    const record = {
      id: added.id,
      userId: user.id,
      type: 'session' as const,
      name: device,
      createdAt,
      state,
    };
    await putCreated(states, record, user, generation);
    audit({ event: 'session.created', userId: user.id, tokenId: added.id });
    await renewHash(ports, account, request.password);
    return { user, tokenId: added.id, generation, createdAt };
  };
}

export type LogIn = ReturnType<typeof makeLogIn>;

interface Account {
  user: User;
  passwordHash: Uint8Array;
}

/**
 * Any text within bounds is a try, so that a change of policy locks nobody out.
 * @returns the device's name.
 */
function parseRequest({ username, password, device }: LogInRequest): string {
  const { values, errors } = collectFields({
    username: parseTry(username, 254),
    password: parseTry(normalisePassword(password), PASSWORD_MAX_LENGTH),
    device: parseLabel(device),
  });
  if (errors.length > 0) throw new AuthError('validation_failed', { errors });
  return values.device;
}

function parseTry(value: string, maxLength: number): Parsed {
  if (!value.isWellFormed()) return { ok: false, message: 'must be well-formed Unicode' };
  if (value === '') return { ok: false, message: 'must not be empty' };
  if (lengthOf(value) > maxLength) return { ok: false, message: `must have at most ${maxLength} characters` };
  return { ok: true, value };
}

/**
 * One look-up and one hash, whoever asks and whatever is wrong, so that neither the answer nor its time tells which
 * names exist.
 */
async function checkPassword(ports: LogInPorts, request: LogInRequest): Promise<Account> {
  const { users, hasher, bulkhead, dummyHash } = ports;
  const name = parseLoginName(request.username);
  const password = normalisePassword(request.password);
  const found = name && (await users.findForLogin(name));

  const matches = await bulkhead.run(() => hasher.verify(found?.passwordHash ?? dummyHash, password));
  if (!found) return refuse(ports, 'unknown');
  if (!matches) return refuse(ports, 'password', found.user);
  if (found.user.disabled) return refuse(ports, 'disabled', found.user);
  return found;
}

/** The session that made room is revoked already, and pending: where this fails the next sweep finishes it. */
async function finishReplacement({ states, revocations }: LogInPorts, key: TokenKey): Promise<void> {
  try {
    await states.revoke(key);
    await revocations.settle([key.tokenId]);
  } catch (error) {
    if (!(error instanceof AuthError && error.code === 'unavailable')) throw error;
  }
}

function refuse({ audit }: LogInPorts, reason: 'unknown' | 'password' | 'disabled', user?: User): never {
  audit({ event: 'login.failed', reason, ...(user && { userId: user.id }) });
  throw new AuthError('invalid_credentials');
}

/**
 * Where the parameters have changed since: only now is the password at hand to hash it anew. A full queue may wait, and
 * so may a database that has just gone away: the login has happened.
 */
async function renewHash(
  { users, hasher, bulkhead }: LogInPorts,
  { user, passwordHash }: Account,
  password: string,
): Promise<void> {
  if (!hasher.isOutdated(passwordHash)) return;
  try {
    const renewed = await bulkhead.run(() => hasher.hash(normalisePassword(password)));
    await users.replaceHash(user.id, passwordHash, renewed);
  } catch (error) {
    if (!(error instanceof AuthError)) throw error;
  }
}
