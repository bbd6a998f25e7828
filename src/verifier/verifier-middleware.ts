import type { IncomingMessage, ServerResponse } from 'node:http';
import { authenticate } from './bearer.ts';
import type { Verifier } from './create-verifier.ts';

/** For Express and Connect: passes a request on only with a good token, which `authOf(request)` (or `request.auth`) gives. */
export function verifierMiddleware(verifier: Verifier) {
  return function verifyBearer(
    request: IncomingMessage,
    response: ServerResponse,
    next: (error?: unknown) => void,
  ): void {
    authenticate(verifier, request.headers.authorization).then((outcome) => {
      if ('auth' in outcome) {
        Object.assign(request, { auth: outcome.auth });
        next();
        return;
      }
      // A time-out of the service's own may have answered while Latchkey was asked.
      if (response.headersSent) return;
      const { status, headers, body } = outcome.refusal;
      response.writeHead(status, headers).end(body);
    }, next);
  };
}
