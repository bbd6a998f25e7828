import type { FastifyInstance, HTTPMethods, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { METHODS } from 'node:http';
import { AuthError } from '../../domain/errors.ts';
import type { RequestGroup } from '../../telemetry/request-lines.ts';
import '../openapi/operation.ts';
import './request-log.ts';

/** Node passes CONNECT to no handler, and closes the connection. */
export const ALL_METHODS = METHODS.filter((method) => method !== 'CONNECT') as HTTPMethods[];

/**
 * Answers 405 with `Allow` if the path exists but not for this method. Fastify would answer 404, and route `DELETE
 * /api/auth/refresh` to `/api/auth/:id`. This 405, and the 404 of an unknown path, come before authentication and
 * before any body is read.
 */
function methodNotAllowed(app: FastifyInstance, _options: object, done: () => void): void {
  for (const method of ALL_METHODS) {
    if (!app.supportedMethods.includes(method)) app.addHttpMethod(method, { hasBody: true });
  }
  app.addHook('onRequest', (request, _reply, next) => {
    // First of all, so that a body that is too large or malformed does not hide the 404.
    next(request.is404 ? new AuthError('not_found') : undefined);
  });
  const known = new Map<string, { methods: Set<string>; group: RequestGroup }>();
  let isComplete = false;
  app.addHook('onRoute', ({ url, method, config }: RouteOptions) => {
    if (isComplete) return;
    const { methods, group } = known.get(url) ?? { methods: new Set(), group: config?.group ?? 'other' };
    for (const each of [method].flat()) methods.add(each);
    known.set(url, { methods, group });
  });
  app.decorate('methodsOf', (url) => [...(known.get(url)?.methods ?? [])].sort().join(', '));
  app.decorate('refuseOtherMethods', () => {
    isComplete = true;
    for (const [url, { methods: allowed, group }] of known) {
      const others = ALL_METHODS.filter((method) => !allowed.has(method));
      if (others.length === 0) continue;
      const allow = app.methodsOf(url);
      app.route({
        method: others,
        url,
        schema: { hide: true },
        config: { group, budget: { none: 'it refuses before it reads anything' } },
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
    /** The methods of a path's routes, as in `Allow`; it is complete after the last route. */
    methodsOf(url: string): string;
    /** Call it after the last route. */
    refuseOtherMethods(): void;
  }
}

export default fp(methodNotAllowed, { name: 'method-not-allowed', fastify: '5.x' });
