import type { FastifyInstance, HTTPMethods, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { METHODS } from 'node:http';
import { AuthError } from '../../domain/errors.ts';
import '../openapi/operation.ts';

/** Node hands CONNECT to nobody, and closes the connection. */
export const ALL_METHODS = METHODS.filter((method) => method !== 'CONNECT') as HTTPMethods[];

/**
 * Answers 405 with `Allow` wherever a path is known and the method is not. Fastify would say 404, and let
 * `DELETE /api/auth/refresh` fall into `/api/auth/:id`. It answers before authentication and before any body is read, and
 * so does the 404 of an unknown path.
 */
function methodNotAllowed(app: FastifyInstance, _options: object, done: () => void): void {
  for (const method of ALL_METHODS) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method, { hasBody: true });
  }
  app.addHook('onRequest', (request, _reply, next) => {
    // Or a body that is too large or malformed would hide that there is nobody to read it.
    next(request.is404 ? new AuthError('not_found') : undefined);
  });
  const known = new Map<string, Set<string>>();
  app.addHook('onRoute', ({ url, method }: RouteOptions) => {
    const methods = known.get(url) ?? new Set();
    for (const each of [method].flat()) methods.add(each);
    known.set(url, methods);
  });
  app.decorate('refuseOtherMethods', () => {
    for (const [url, allowed] of [...known]) {
      const others = ALL_METHODS.filter((method) => !allowed.has(method));
      if (others.length === 0) continue;
      const allow = [...allowed].sort().join(', ');
      app.route({
        method: others,
        url,
        schema: { hide: true },
        onRequest: (_request, reply, next) => {
          reply.header('allow', allow);
          next(new AuthError('method_not_allowed'));
        },
        handler: () => undefined,
      });
    }
  });
  done();
}

declare module 'fastify' {
  interface FastifyInstance {
    /** To be called after the last route. */
    refuseOtherMethods(): void;
  }
}

export default fp(methodNotAllowed, { name: 'method-not-allowed', fastify: '5.x' });
