import { callListener } from './call-listener.ts';
import type { Verifier } from './create-verifier.ts';
import { checkDemand, type Demand } from './demand.ts';
import { readScope, type Scope } from './scope.ts';
import {
  USERS_TYPES,
  type AnyToken,
  type LimitedToken,
  type TokenType,
  type UsersType,
  type VerifiedToken,
} from './verified-token.ts';
import { invalid, VerifierError } from './verifier-error.ts';

/** A response that refuses a request: a problem (RFC 9457) with the challenge of RFC 6750 or RFC 9470. */
export interface Refusal {
  status: 401 | 403 | 503;
  headers: Record<string, string>;
  body: string;
}

/** Code → status, challenge or Retry-After, title, detail; the same as Latchkey's own. */
const REFUSALS = {
  token_missing: [401, 'Bearer', 'Token missing', 'The request carries no bearer token.'],
  invalid_token: [401, 'Bearer error="invalid_token"', 'Invalid token', 'The token is not good (any more).'],
  insufficient_scope: [
    403,
    'Bearer error="insufficient_scope"',
    'Insufficient scope',
    'A limited token is good only where scopes are needed and it has all of them; WWW-Authenticate names those that are needed here, if any.',
  ],
  insufficient_user_authentication: [
    401,
    'Bearer error="insufficient_user_authentication"',
    'Insufficient user authentication',
    'The token is good, but more is demanded of its login here; see WWW-Authenticate.',
  ],
  unavailable: [503, '1', 'Unavailable', 'This service cannot check or get a token now; see Retry-After.'],
} as const;

/** The ids that Latchkey would take. They go into logs, so no other text may. */
const REQUEST_ID = /^[A-Za-z0-9-]{1,64}$/;

const BEARER = /^Bearer +([^\s]+) *$/i;

/** What plugin and middleware are told besides the verifier. */
export interface BearerOptions<Request> extends Demand {
  /**
   * Also takes limited tokens that have this scope, or all of these. A handler then reads the token with
   * `authOf(request, { limited: true })`.
   */
  scope?: Scope | undefined;
  /**
   * Called for each request that is refused, for a log. The client does not learn the reason, but the
   * `request_id`: the request's `X-Request-Id`, or a new one. Its errors are ignored.
   */
  onRefused?: ((error: VerifierError, request: Request, requestId: string) => void) | undefined;
}

/** What `verify` is told at each request. */
export type Checks = Demand & { scope: Scope };

/**
 * Reads what plugin or middleware was told, before the first request.
 * @returns undefined for nothing.
 * @throws TypeError for a scope that has not the form of one, and for what cannot be demanded
 */
export function checksOf(options: Omit<BearerOptions<never>, 'onRefused'>): Checks | undefined {
  checkDemand(options);
  const { scope, acr, maxAge } = options;
  if (scope !== undefined) readScope(scope);
  if (scope === undefined && acr === undefined && maxAge === undefined) return undefined;
  // Without a scope, `verify` returns no limited token, which its type leaves open here.
  return {
    ...(scope !== undefined && { scope }),
    ...(acr !== undefined && { acr }),
    ...(maxAge !== undefined && { maxAge }),
  } as Checks;
}

/**
 * Reads the token only from the Authorization header (RFC 6750, section 2.1).
 * @param givenId the header X-Request-Id.
 * @throws any error that is not a VerifierError
 */
export async function authenticate<Accepted extends TokenType>(
  { verify }: Pick<Verifier<Accepted>, 'verify'>,
  authorization = '',
  onRefused: (error: VerifierError, requestId: string) => void = () => undefined,
  checks?: Checks,
  givenId?: unknown,
): Promise<{ auth: VerifiedToken<Accepted> | LimitedToken } | { refusal: Refusal }> {
  try {
    if (!/^Bearer +\S/i.test(authorization)) throw invalid('missing', 'the request carries none');
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined) throw invalid('malformed', 'the header holds more than a token');
    return { auth: await (checks ? verify(token, checks) : verify(token)) };
  } catch (error) {
    if (!(error instanceof VerifierError)) throw error;
    const requestId = typeof givenId === 'string' && REQUEST_ID.test(givenId) ? givenId : newRequestId();
    callListener(onRefused, error, requestId);
    return { refusal: refuse(error, requestId) };
  }
}

function newRequestId(): string {
  return crypto.randomUUID();
}

/** @param requestId of the request, if the caller knows one. */
export function refuse(
  { code: errorCode, reason, expected = '' }: VerifierError,
  requestId = newRequestId(),
): Refusal {
  const code = reason === 'missing' ? 'token_missing' : errorCode;
  const [status, hint, title, detail] = REFUSALS[code];
  const needed = code === 'insufficient_scope' && expected !== '' ? `, scope="${expected}"` : '';
  const demanded = code === 'insufficient_user_authentication' ? `, ${expected}` : '';
  const problem = { type: `urn:latchkey:error:${code}`, title, status, detail, code };
  const body = JSON.stringify({ ...problem, request_id: requestId });
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      // It is ASCII.
      'content-length': String(body.length),
      'cache-control': 'no-store',
      [status === 503 ? 'retry-after' : 'www-authenticate']: hint + needed + demanded,
    },
    body,
  };
}

/** Which tokens a handler expects, besides users' access and long-lived tokens. A verifier is one of these. */
export interface Expected<Accepted extends TokenType> {
  /** The types that the verifier accepts. */
  readonly accept?: readonly Accepted[];
  /** Whether the handler knows that a limited token may do no more than its scopes say. */
  readonly limited?: boolean;
}

/**
 * The token that plugin or middleware has verified. Pass the verifier if it accepts service tokens: the type is its own.
 * Pass `limited: true` where the plugin or middleware has the option `scope`.
 * @throws Error on a route without plugin and middleware, and for a service's or a limited token that the handler does
 * not expect: it fails closed.
 */
export function authOf(request: object): VerifiedToken;
export function authOf<Accepted extends TokenType = UsersType>(
  request: object,
  expected: Expected<Accepted> & { readonly limited: true },
): VerifiedToken<Accepted> | LimitedToken;
export function authOf<Accepted extends TokenType>(
  request: object,
  expected: Expected<Accepted> & { readonly limited?: false },
): VerifiedToken<Accepted>;
export function authOf(request: object, { accept = USERS_TYPES, limited = false }: Expected<TokenType> = {}) {
  const { auth } = request as { auth?: AnyToken | null };
  if (!auth) throw new Error('this route has no verifier: register the plugin or the middleware before it');
  if (auth.tokenType === 'limited') {
    if (!limited) throw new Error('it is a limited token: call authOf(request, { limited: true })');
  } else if (!accept.includes(auth.tokenType))
    throw new Error(`it is a token of type ${auth.tokenType}: call authOf(request, verifier)`);
  return auth;
}
