import type { FastifyInstance } from 'fastify';

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
