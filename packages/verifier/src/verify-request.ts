import { authenticate, checksOf, refuse, type BearerOptions, type Refusal } from './bearer.ts';
import type { Verifier } from './create-verifier.ts';
import type { Scope } from './scope.ts';
import type { LimitedToken, TokenType, VerifiedToken } from './verified-token.ts';
import { VerifierError } from './verifier-error.ts';

/** What this module uses of the web's `Request`, as Hono, Next.js, SvelteKit and many others pass it. */
export interface WebRequest {
  headers: { get(name: string): string | null };
}

/** Either the verified token, or the response that refuses the request. */
export type VerifiedRequest<Token> =
  | { auth: Token; response?: undefined }
  | { auth?: undefined; response: Response };

/**
 * For frameworks with the web's `Request` and `Response`: checks the request's bearer token. With `scope`, a limited token
 * that has it passes too.
 */
export function verifyRequest<Accepted extends TokenType, Given extends WebRequest>(
  verifier: Pick<Verifier<Accepted>, 'accept' | 'verify'>,
  request: Given,
  options: BearerOptions<Given> & { scope: Scope },
): Promise<VerifiedRequest<VerifiedToken<Accepted> | LimitedToken>>;
export function verifyRequest<Accepted extends TokenType, Given extends WebRequest>(
  verifier: Pick<Verifier<Accepted>, 'accept' | 'verify'>,
  request: Given,
  options?: BearerOptions<Given> & { scope?: undefined },
): Promise<VerifiedRequest<VerifiedToken<Accepted>>>;
export async function verifyRequest<Accepted extends TokenType, Given extends WebRequest>(
  verifier: Pick<Verifier<Accepted>, 'accept' | 'verify'>,
  request: Given,
  { onRefused, ...options }: BearerOptions<Given> = {},
): Promise<VerifiedRequest<VerifiedToken<Accepted> | LimitedToken>> {
  // Thrown at the first request, not only at one that carries a token.
  const checks = checksOf(options);
  const authorization = request.headers.get('authorization') ?? '';
  const refused = (error: VerifierError, id: string) => onRefused?.(error, request, id);
  const id = request.headers.get('x-request-id');
  const outcome = await authenticate<Accepted>(verifier, authorization, refused, checks, id);
  return 'auth' in outcome ? { auth: outcome.auth } : { response: responseOf(outcome.refusal) };
}

/**
 * The response for an error of `verify`, `serviceToken` or `exchange`: 401, 403 or 503, as Latchkey would answer.
 * @throws any other error: it is none of Latchkey's, and stays the framework's
 */
export function refusalOf(error: unknown): Response {
  if (!(error instanceof VerifierError)) throw error;
  return responseOf(refuse(error));
}

function responseOf({ status, headers, body }: Refusal): Response {
  return new Response(body, { status, headers });
}
