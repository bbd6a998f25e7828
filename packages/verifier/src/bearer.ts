import type { Verifier } from './create-verifier.ts';
import type { VerifiedToken } from './verified-token.ts';
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
  unavailable: [
    503,
    '1',
    'Unavailable',
    'It cannot be told for now whether the token is good; see Retry-After.',
  ],
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
export async function authenticate(
  { verify }: Pick<Verifier, 'verify'>,
  authorization = '',
  onRefused: (error: VerifierError) => void = () => undefined,
): Promise<{ auth: VerifiedToken } | { refusal: Refusal }> {
  try {
    if (!/^Bearer +\S/i.test(authorization)) throw invalid('missing', 'the request carries none');
    const token = BEARER.exec(authorization)?.[1];
    if (token === undefined) throw invalid('malformed', 'the header holds more than a token');
    return { auth: await verify(token) };
  } catch (error) {
    if (!(error instanceof VerifierError)) throw error;
    onRefused(error);
    return { refusal: refuse(error.reason === 'missing' ? 'token_missing' : error.code) };
  }
}

function refuse(code: keyof typeof REFUSALS): Refusal {
  const [status, hint, title, detail] = REFUSALS[code];
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      [status === 401 ? 'www-authenticate' : 'retry-after']: hint,
    },
    body: JSON.stringify({ type: `urn:latchkey:error:${code}`, title, status, detail, code }),
  };
}

/** The token that plugin or middleware has verified. @throws Error on a route without either: it fails closed. */
export function authOf(request: object): VerifiedToken {
  const { auth } = request as { auth?: VerifiedToken | null };
  if (!auth) throw new Error('this route has no verifier: register the plugin or the middleware before it');
  return auth;
}
