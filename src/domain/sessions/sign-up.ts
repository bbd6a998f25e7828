import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError } from '../errors.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { Observe } from '../metrics/observe.ts';
import { SIGNUP_REFUSALS } from '../metrics/outcomes.ts';
import type { Turn } from '../passwords/bulkhead.ts';
import type { Budget } from '../limits/budget.ts';
import { parsePassword, requireUnguessable } from '../passwords/policy.ts';
import type { NewPasswordPorts } from '../passwords/ports.ts';
import { initialState, openedAt } from './rotation.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { SessionGrant } from './session.ts';
import { putCreated } from '../tokens/put-created.ts';
import { parseDevice } from '../users/device-name.ts';
import { collectFields } from '../identifiers.ts';
import type { NewNames } from '../users/new-names.ts';
import type { UserStore } from '../users/ports.ts';
import { publishCreated } from '../users/publish-created.ts';
import { refuseTaken } from '../users/taken.ts';
import type { User } from '../user.ts';

interface SignUpPorts extends NewPasswordPorts {
  users: Pick<UserStore, 'addWithSession' | 'findTaken'>;
  tokenStates: Pick<TokenStateStore, 'now' | 'preparePut' | 'put'>;
  feed: Pick<RevocationFeed, 'publishChanges'>;
  newNames: NewNames;
  /** RATE_LIMIT_SIGNUP_NETWORK. */
  networkBudget: Budget;
  /** SIGNUP_ENABLED. */
  enabled: boolean;
  audit: Audit;
  observe: Pick<Observe, 'signUpRefused'>;
}

export interface SignUpRequest {
  username: string;
  name: string;
  email: string;
  password: string;
  device: string;
  /** The language that the client prefers; null if it names none. */
  locale: string | null;
  /** Keyed hash of address and User-Agent. */
  caller: string;
  turn: Turn;
  /** The /24 or /48 whose accounts are counted together; null if they are not counted. */
  network: string | null;
  from: Sourced;
}

/**
 * Opens an account and its first session.
 * @throws AuthError `signup_disabled`, `validation_failed`, `password_refused`, `username_taken`, `email_taken`,
 * `rate_limited`, `overloaded`, `unavailable`
 */
export function makeSignUp(ports: SignUpPorts) {
  const { users, tokenStates, hasher, bulkhead, audit, observe } = ports;

  async function open(request: SignUpRequest): Promise<SessionGrant> {
    if (!ports.enabled) throw new AuthError('signup_disabled');
    const fields = parseRequest(request, ports);

    const { network, from } = request;
    return ports.networkBudget({ network }, from, () => create(request, fields));
  }

  async function create(request: SignUpRequest, fields: Fields): Promise<SessionGrant> {
    const { username, name, email, password, device } = fields;
    // Checked first only to save a hash; the unique constraints decide.
    refuseTaken(await users.findTaken({ username, email }));
    const passwordHash = await bulkhead.run('signup', request.turn, () => hasher.hash(password));
    // Fails here if the fast store is down, before anything is written.
    const generation = await tokenStates.now();
    const createdAt = openedAt(generation);
    const state = initialState(generation, request.caller);
    const { userId, tokenId } = await users.addWithSession(
      { username, name, email, passwordHash, locale: request.locale },
      { name: device, createdAt, state },
    );

    const user: User = {
      id: userId,
      username,
      name,
      createdAt,
      disabled: false,
      emailVerified: false,
      roles: [],
      version: 0,
    };
    await putCreated(
      tokenStates,
      // Stryker disable next-line StringLiteral: the fast store keeps no type
      { id: tokenId, userId, type: 'session', name: device, createdAt, state },
      user,
      null,
    );
    audit({ event: 'user.signed_up', userId, tokenId }, request.from);
    await publishCreated(ports.feed, user);
    return { user, tokenId, generation, createdAt, acr: null };
  }

  return async function signUp(request: SignUpRequest): Promise<SessionGrant> {
    try {
      return await open(request);
    } catch (error) {
      const refusal = SIGNUP_REFUSALS.find((code) => error instanceof AuthError && error.code === code);
      if (refusal) observe.signUpRefused(refusal);
      throw error;
    }
  };
}

export type SignUp = ReturnType<typeof makeSignUp>;

type Fields = ReturnType<typeof parseRequest>;

function parseRequest(
  request: SignUpRequest,
  { passwordMinLength, isCommonPassword, newNames }: SignUpPorts,
) {
  const { values, errors } = collectFields({
    username: newNames.username(request.username),
    name: newNames.name(request.name),
    email: newNames.email(request.email),
    password: parsePassword(request.password, passwordMinLength),
    device: parseDevice(request.device),
  });
  if (errors.length > 0) throw new AuthError('validation_failed', { errors });
  requireUnguessable(values.password, values, isCommonPassword);
  return values;
}
