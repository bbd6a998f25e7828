import type { IncomingMessage, ServerResponse } from 'node:http';
import { authenticate, checksOf, type BearerOptions } from './bearer.ts';
import type { Verifier } from './create-verifier.ts';
import type { TokenType } from './verified-token.ts';
import type { VerifierError } from './verifier-error.ts';

/**
 * For Express and Connect: passes on only requests with a good token: `authOf(request)` or `request.auth`.
 * @throws TypeError for a scope that has not the form of one, and for what cannot be demanded
 */
export function verifierMiddleware(
  verifier: Pick<Verifier<TokenType>, 'verify'>,
  { onRefused, ...options }: BearerOptions<IncomingMessage> = {},
) {
  const checks = checksOf(options);
  return function verifyBearer(
    request: IncomingMessage,
    response: ServerResponse,
    next: (error?: unknown) => void,
  ): void {
    const heard = (error: VerifierError, id: string) => onRefused?.(error, request, id);
    const { authorization, 'x-request-id': id } = request.headers;
    authenticate(verifier, authorization, heard, checks, id).then((outcome) => {
      if ('auth' in outcome) {
        Object.assign(request, { auth: outcome.auth });
        next();
        return;
      }
      // A timeout of the service may have answered while we waited for Latchkey.
      if (response.headersSent) return;
      const { status, headers, body } = outcome.refusal;
      response.writeHead(status, headers).end(body);
    }, next);
  };
}
