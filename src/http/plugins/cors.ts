import type { FastifyInstance, FastifyRequest, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';

interface CorsOptions {
  /** CORS_ORIGINS: the origins whose scripts may call the operations below. */
  origins: readonly string[];
}

/**
 * The paths that a user's own client calls. Verify is not among them: its OPTIONS are those of a proxy's client, and
 * the proxy asks about them. Registered services keep a secret, so they do not run in a browser.
 */
export const BROWSER_PATHS: ReadonlySet<string> = new Set([
  '/api/auth',
  '/api/auth/:id',
  '/api/auth/token',
  '/api/auth/signup',
  '/api/auth/second-factor',
  '/api/auth/passkey',
  '/api/auth/refresh',
  '/api/auth/llt',
  '/api/auth/llt/:id',
  '/api/auth/password-reset',
  '/api/auth/password-reset-request',
  '/api/auth/email-verification',
  '/api/user',
  '/api/user/email',
  '/api/user/email-verification',
  '/api/user/factors',
  '/api/user/factors/:id/removal',
  '/api/user/factors/recovery-codes',
  '/api/user/factors/totp',
  '/api/user/factors/totp/confirm',
  '/api/user/factors/passkey',
  '/api/user/factors/passkey/confirm',
  '/api/user/password',
  '/api/user/tokens',
  '/api/user/tokens/:id',
]);

/** What a browser asks before a script's request (Fetch, section 3.3.2). */
export function isPreflight({ method, headers }: Pick<FastifyRequest, 'method' | 'headers'>): boolean {
  return (
    method === 'OPTIONS' &&
    headers.origin !== undefined &&
    headers['access-control-request-method'] !== undefined
  );
}

/** What scripts may read besides the safelisted headers. */
const EXPOSED = 'Allow, Retry-After, WWW-Authenticate, X-Request-Id';

const PREFLIGHT = {
  'access-control-allow-headers': 'Authorization, Content-Type, Traceparent, X-Request-Id',
  // Ten minutes; a change of the configuration takes as long to reach every browser.
  'access-control-max-age': '600',
};

/**
 * Lets scripts of these origins call the paths above and read every answer, errors too. Without credentials: tokens
 * travel in `Authorization`, and there are no cookies (docs/adr/0014-proxies-and-browsers.md).
 */
function cors(app: FastifyInstance, { origins }: CorsOptions, done: () => void): void {
  const allowed = new Set(origins);

  const allowOrigin: onRequestHookHandler = (request, reply, next) => {
    // Also without an origin, so that no cache gives one origin the answer for another.
    reply.header('vary', 'Origin');
    const { origin } = request.headers;
    if (origin === undefined || !allowed.has(origin)) {
      next();
      return;
    }
    reply.header('access-control-allow-origin', origin).header('access-control-expose-headers', EXPOSED);
    if (!isPreflight(request)) {
      next();
      return;
    }
    const methods = app.methodsOf(request.routeOptions.url ?? '');
    void reply.code(204).header('access-control-allow-methods', methods).headers(PREFLIGHT).send();
  };

  // A hook of these routes alone, and of their 405s: no other request takes longer.
  app.addHook('onRoute', (route) => {
    if (BROWSER_PATHS.has(route.url)) route.onRequest = [allowOrigin, ...[route.onRequest ?? []].flat()];
  });
  done();
}

export default fp(cors, { name: 'cors', fastify: '5.x', dependencies: ['method-not-allowed'] });
