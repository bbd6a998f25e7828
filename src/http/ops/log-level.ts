import type { Socket } from 'node:net';
import type { FastifyBaseLogger, FastifyInstance } from 'fastify';

interface LogLevelRoutes {
  logger: Pick<FastifyBaseLogger, 'level' | 'warn'>;
}

export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

/** A level above `warn` would hide events that the log must keep: thefts, outages, and changes of the level. */
const SETTABLE = LEVELS.slice(0, LEVELS.indexOf('warn') + 1);

const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/;

type Ends = { [End in 'remoteAddress' | 'localAddress']?: Socket[End] | undefined };

/** Whether both ends of a connection are on this host or in this pod. */
export function isFromHere({ remoteAddress, localAddress }: Ends): boolean {
  return [remoteAddress, localAddress].every((address) => LOOPBACK.test(address ?? ''));
}

/**
 * Reads and changes the log level, until the process ends. Changes are accepted only from this host or pod, which takes
 * the right to `kubectl port-forward` or `exec`. Both ends must be loopback addresses: the proxy of a service mesh in
 * the pod forwards outside requests from a loopback address too, but to the pod's own address. No caller can set a
 * level that hides warnings.
 */
export function logLevelRoutes(app: FastifyInstance, { logger }: LogLevelRoutes, done: () => void): void {
  app.get('/log-level', () => ({ level: logger.level }));

  app.put<{ Params: { level: string } }>('/log-level/:level', (request, reply) => {
    const { level } = request.params;
    if (!isFromHere(request.socket)) {
      return reply.code(403).send({ error: 'only from this host or pod' });
    }
    if (!SETTABLE.includes(level)) return reply.code(400).send({ error: `one of ${SETTABLE.join(', ')}` });
    const from = logger.level;
    // Logged before and after the change: one of the two levels may suppress the line.
    logger.warn({ from, to: level }, 'the log level changes');
    logger.level = level;
    logger.warn({ from, to: level }, 'the log level has changed');
    return { level };
  });
  done();
}
