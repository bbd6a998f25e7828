import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { principalOf } from '../plugins/authenticate.ts';
import { ALL_METHODS } from '../plugins/method-not-allowed.ts';

const schema = { operationId: 'verify', summary: 'Is this access token or long-lived token good right now?' };

/**
 * The hottest path. A proxy asks here with its client's own method, headers and perhaps body, so it answers before any
 * body is looked at.
 */
export function verifyRoute(app: FastifyInstance, _options: object, done: () => void): void {
  app.route({
    method: ALL_METHODS,
    url: '/api/auth/verify',
    schema,
    onRequest: [app.auth.principal, answer],
    handler: answer,
  });
  done();
}

function answer(request: FastifyRequest, reply: FastifyReply): void {
  const { user, tokenId, type } = principalOf(request);
  reply
    .header('x-auth-user', user.id)
    .header('x-auth-username', headerText(user.username))
    .header('x-auth-session', tokenId)
    .header('x-auth-token-type', type)
    .send('');
}

/** Header values are ASCII: anything else, and the percent sign itself, is percent-encoded UTF-8 (RFC 3986). */
function headerText(text: string): string {
  return text.replace(/[^\x21-\x24\x26-\x7e]/gu, encodeURIComponent);
}
