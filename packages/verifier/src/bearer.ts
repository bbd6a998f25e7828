import type { Verifier } from './create-verifier.ts';
import { USERS_TYPES, type TokenType, type VerifiedToken } from './verified-token.ts';
import { invalid, VerifierError } from './verifier-error.ts';

/** A response that refuses a request: a problem (RFC 9457) with the challenge of RFC 6750. */
export interface Refusal {
  status: 401 | 503;
  headers: Record<string, string>;
  body: string;
}

/** Code → status, challenge or Retry-After, title, detail; the same as Latchkey's own. */
const REFUSALS = {
  token_missing: [401, 'Bearer', 'Token missing', 'The request carries no bearer token.'],
  invalid_token: [401, 'Bearer error="invalid_token"', 'Invalid token', 'The token is not good (any more).'],
  unavailable: [503, '1', 'Unavailable', 'This service cannot check or get a token now; see Retry-After.'],
} as const;

const BEARER = /^Bearer +([^\s]+) *$/i;

/** What plugin and middleware are told besides the verifier. */
export interface BearerOptions<Request> {
  /** Called for each request that is refused, for a log. The client does not learn the reason. */
  onRefused?: ((error: VerifierError, request: Request) => void) | undefined;
}

/**
 * Reads the token only from the Authorization header (RFC 6750, section 2.1).
 * @throws any error that is not a VerifierError
 */
export async function authenticate<Accepted extends TokenType>(
  { verify }: Pick<Verifier<Accepted>, 'verify'>,
  authorization = '',
  onRefused: (error: VerifierError) => void = () => undefined,
): Promise<{ auth: VerifiedToken<Accepted> } | { refusal: Refusal }> {
  try {
    if (!/^Bearer +\S/i.test(authorization)) throw invalid('missing', 'the request carries none');
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined) throw invalid('malformed', 'the header holds more than a token');
    return { auth: await verify(token) };
  } catch (error) {
    if (!(error instanceof VerifierError)) throw error;
    onRefused(error);
    return { refusal: refuse(error) };
  }
}

export function refuse({ code: errorCode, reason }: VerifierError): Refusal {
  const code = reason === 'missing' ? 'token_missing' : errorCode;
  const [status, hint, title, detail] = REFUSALS[code];
  const body = JSON.stringify({ type: `urn:latchkey:error:${code}`, title, status, detail, code });
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      // It is ASCII.
      'content-length': String(body.length),
      'cache-control': 'no-store',
      [status === 401 ? 'www-authenticate' : 'retry-after']: hint,
    },
    body,
  };
}

/**
 * The token that plugin or middleware has verified. Pass the verifier if it accepts service tokens: the type is its own.
 * @throws Error on a route without plugin and middleware, and for a service's token if no verifier that accepts them is
 * passed: it fails closed.
 */
export function authOf(request: object): VerifiedToken;
export function authOf<Accepted extends TokenType>(
  request: object,
  verifier: Pick<Verifier<Accepted>, 'accept'>,
): VerifiedToken<Accepted>;
export function authOf(request: object, verifier?: Pick<Verifier<TokenType>, 'accept'>) {
  const { auth } = request as { auth?: VerifiedToken<TokenType> | null };
  if (!auth) throw new Error('this route has no verifier: register the plugin or the middleware before it');
  const accept: readonly TokenType[] = verifier?.accept ?? USERS_TYPES;
  if (!accept.includes(auth.tokenType))
    throw new Error(`it is a token of type ${auth.tokenType}: call authOf(request, verifier)`);
  return auth;
}
