import type { FastifyBaseLogger, FastifyInstance } from 'fastify';

interface LogLevelRoutes {
  logger: Pick<FastifyBaseLogger, 'level' | 'warn'>;
}

export const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'];

const LOOPBACK = /^(127\.|::1$|::ffff:127\.)/;

/**
 * The level of the log, until the process ends. Only whoever is on this host or in this pod may change it, and that is who
 * may `kubectl port-forward` or `exec`: whoever else reaches this port must not be able to hide behind a silent log.
 */
export function logLevelRoutes(app: FastifyInstance, { logger }: LogLevelRoutes, done: () => void): void {
  app.get('/log-level', () => ({ level: logger.level }));

  app.put<{ Params: { level: string } }>('/log-level/:level', (request, reply) => {
    const { level } = request.params;
    if (!LOOPBACK.test(request.socket.remoteAddress ?? '')) {
      return reply.code(403).send({ error: 'only from this host or pod' });
    }
    if (!LEVELS.includes(level)) return reply.code(400).send({ error: `one of ${LEVELS.join(', ')}` });
    const from = logger.level;
    // Before and after: one of the two levels may not tell it.
    logger.warn({ from, to: level }, 'the log level changes');
    logger.level = level;
    logger.warn({ from, to: level }, 'the log level has changed');
    return { level };
  });
  done();
}
