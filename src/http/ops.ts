import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify';
import type { Build } from '../telemetry/build.ts';
import { AuthError } from '../domain/errors.ts';
import { sendError } from './error-handler.ts';
import { PROBLEM_TYPE } from './problem.ts';

/** The result of the readiness probe. */
export interface Readiness {
  ready: boolean;
  draining: boolean;
  /** For each dependency whether it answers now, or what to do if not. */
  checks: Record<string, string>;
  /** `ok`, or how the clock differs from the stores', and what to do. */
  clock: string;
  /** `ok`, or in which setting this replica disagrees with its installation, and what to do. */
  installation: string;
}

interface HealthRoutes {
  readiness: () => Promise<Readiness>;
  build: Build;
}

/**
 * Liveness checks no dependency: a restart would repair none of them. Readiness stays true if a dependency fails later:
 * otherwise all replicas would leave at once, and clients would get a proxy's error instead of our 503. A wrong clock
 * and a wrong setting are the replica's own fault, so those take it out.
 */
export function healthRoutes(
  app: FastifyInstance,
  { readiness, build }: HealthRoutes,
  done: () => void,
): void {
  app.get('/health/live', () => ({ status: 'live' }));
  app.get('/health/ready', async (_request, reply) => {
    const { ready, draining, checks, clock, installation } = await readiness();
    if (!ready) reply.code(503).header('retry-after', '1');
    return {
      status: draining ? 'draining' : ready ? 'ready' : 'not ready',
      ...build,
      checks,
      clock,
      installation,
    };
  });
  done();
}

interface LogLevelRoutes {
  logger: Pick<FastifyBaseLogger, 'level' | 'warn'>;
}

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** A level above `warn` would hide events that the log must keep: thefts, outages, and changes of the level. */
const SETTABLE = LEVELS.slice(0, LEVELS.indexOf('warn') + 1);

/** Reads and changes the log level, until the process ends. No caller can set a level that hides warnings. */
export function logLevelRoutes(app: FastifyInstance, { logger }: LogLevelRoutes, done: () => void): void {
  app.get('/log-level', () => ({ level: logger.level }));

  app.put<{ Params: { level: string } }>('/log-level/:level', (request) => {
    const { level } = request.params;
    if (!SETTABLE.includes(level)) {
      const message = `must be one of ${SETTABLE.join(', ')}`;
      throw new AuthError('validation_failed', {
        errors: [{ path: 'params/level', code: 'not_allowed', message }],
      });
    }
    const from = logger.level;
    // Logged before and after the change: one of the two levels may suppress the line.
    logger.warn({ from, to: level }, 'the log level changes');
    logger.level = level;
    logger.warn({ from, to: level }, 'the log level has changed');
    return { level };
  });
  done();
}

const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/;

type Ends = { [End in 'remoteAddress' | 'localAddress']?: Socket[End] | undefined };

/** Whether both ends of a connection are on this host or in this pod. */
export function isFromHere({ remoteAddress, localAddress }: Ends): boolean {
  return [remoteAddress, localAddress].every((address) => LOOPBACK.test(address ?? ''));
}

const LOCAL_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;

const NOT_LOCAL = {
  type: 'urn:latchkey:error:not_local',
  title: 'Not local',
  status: 403,
  detail:
    'Changes are accepted only from this host or pod, to localhost or a loopback address, and from no page. ' +
    'In Kubernetes, use kubectl port-forward.',
  // The API does not know it: it is no member of ERROR_CODES.
  code: 'not_local',
};

/**
 * Hook of the ops port, which asks for no credentials: changes are accepted only from this host or pod, which takes the
 * right to `kubectl port-forward` or `exec`. Both ends must be loopback addresses: the proxy of a service mesh in the pod
 * forwards outside requests from a loopback address too, but to the pod's own address. A browser on the host connects
 * from there as well. So a page may not change anything, nor may a page whose name was bound to a loopback address after
 * it was loaded (DNS rebinding), which shows in the Host.
 */
export function refuseUnlessLocal(request: FastifyRequest, reply: FastifyReply, next: () => void): void {
  const { host = '', origin } = request.headers;
  const isReading = request.method === 'GET' || request.method === 'HEAD';
  if (isReading || (origin === undefined && LOCAL_HOST.test(host) && isFromHere(request.socket))) {
    next();
    return;
  }
  reply.header('x-request-id', request.id).code(403).type(PROBLEM_TYPE).serializer(JSON.stringify);
  reply.send({ ...NOT_LOCAL, request_id: request.id });
}

interface MetricsRoute {
  metrics: () => Promise<string>;
}

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** The metrics that docs/observability.md describes. */
export function metricsRoute(app: FastifyInstance, { metrics }: MetricsRoute, done: () => void): void {
  app.get('/metrics', async (_request, reply) => {
    reply.type(CONTENT_TYPE);
    return metrics();
  });
  done();
}

const HINT = 'This port has /health/live, /health/ready, /metrics and /log-level.';

/** The errors of the ops port, which has no reference. A bug leaves the line that it leaves on the API's port. */
export function registerOpsErrors(app: FastifyInstance, logger: Pick<FastifyBaseLogger, 'error'>): void {
  const requestLog = {
    failed: ({ id }: FastifyRequest, err: Error) => {
      logger.error({ reqId: id, err }, 'internal error');
    },
  };
  const answer = (error: Error, request: FastifyRequest, reply: FastifyReply) =>
    sendError(error, request, reply.header('x-request-id', request.id), { hint: HINT, requestLog });
  app.setErrorHandler(answer);
  app.setNotFoundHandler((request, reply) => answer(new AuthError('not_found'), request, reply));
}
