import type { FastifyInstance, FastifyRequest, HTTPMethods, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import { METHODS } from 'node:http';
import type { Clock } from '../../domain/clock.ts';
import { AuthError } from '../../domain/errors.ts';
import type { RequestGroup } from '../../telemetry/request-lines.ts';
import '../openapi/operation.ts';
import { BROWSER_PATHS, isPreflight } from './cors.ts';
import './request-log.ts';

interface MethodNotAllowedOptions {
  clock: Pick<Clock, 'monotonic'>;
}

/** Node passes CONNECT to no handler, and closes the connection. */
export const ALL_METHODS = METHODS.filter((method) => method !== 'CONNECT') as HTTPMethods[];

/**
 * Answers 405 with `Allow` if the path exists but not for this method. Fastify would answer 404, and route `DELETE
 * /api/auth/refresh` to `/api/auth/:id`. This 405, and the 404 of an unknown path, come before authentication and
 * before any body is read.
 *
 * A browser's preflight gets here only if CORS_ORIGINS does not list its origin. The answer says so, even
 * where no origin is listed, because a 405 would make people look for a fault in the method.
 */
function methodNotAllowed(app: FastifyInstance, { clock }: MethodNotAllowedOptions, done: () => void): void {
  const noteOrigin = makeOriginLog(clock);
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
      const isOpen = BROWSER_PATHS.has(url);
      app.route({
        method: others,
        url,
        schema: { hide: true },
        config: { group, budget: { none: 'it refuses before it reads anything' } },
        onRequest: (request, reply, next) => {
          if (isOpen && isPreflight(request)) {
            noteOrigin(request);
            next(new AuthError('origin_not_listed'));
            return;
          }
          reply.header('allow', allow);
          next(new AuthError('method_not_allowed'));
        },
        handler: () => undefined,
      });
    }
  });
  done();
}

/** An origin as browsers send it, without anything that names a user. Only such a text gets into the log. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[a-z0-9._~:[\]-]+$/;
const MAX_LENGTH = 128;
/** The most lines in an hour, because anyone can invent origins. */
const MOST = 20;
/** Milliseconds. */
const HOUR = 3_600_000;
/** Origins that have had their line; the oldest makes room. */
const REMEMBERED = 1000;

/** Writes one line for each origin that is refused. */
function makeOriginLog(clock: Pick<Clock, 'monotonic'>): (request: FastifyRequest) => void {
  const told = new Set<string>();
  let [since, lines] = [-Infinity, 0];
  return ({ headers: { origin = '' }, log }) => {
    if (told.has(origin) || origin.length > MAX_LENGTH || !ORIGIN.test(origin)) return;
    const now = clock.monotonic();
    if (now - since >= HOUR) [since, lines] = [now, 0];
    if (lines === MOST) return;
    lines++;
    told.add(origin);
    const [oldest] = told;
    if (told.size > REMEMBERED && oldest !== undefined) told.delete(oldest);
    log.warn({ origin }, 'a page was refused: if it is one of yours, add its origin to CORS_ORIGINS');
  };
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
