import type { FastifyInstance } from 'fastify';
import { authenticate } from './bearer.ts';
import type { Verifier } from './create-verifier.ts';

/**
 * For Fastify 5: every route of the registering context requires a good token, and reads it with `authOf(request)`.
 * Register public routes in another context.
 */
export function fastifyVerifier(
  app: FastifyInstance,
  { verifier }: { verifier: Verifier },
  done: () => void,
): void {
  if (!app.hasRequestDecorator('auth')) app.decorateRequest('auth', null);
  app.addHook('onRequest', async (request, reply) => {
    const outcome = await authenticate(verifier, request.headers.authorization);
    if ('auth' in outcome) {
      (request as { auth?: unknown }).auth = outcome.auth;
      return;
    }
    const { status, headers, body } = outcome.refusal;
    return reply.code(status).headers(headers).send(body);
  });
  done();
}

// The same as the package fastify-plugin does: the hook applies to the registering context, not to a new child context.
Object.assign(fastifyVerifier, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'latchkey-verifier',
  [Symbol.for('plugin-meta')]: { name: 'latchkey-verifier', fastify: '5.x' },
});
