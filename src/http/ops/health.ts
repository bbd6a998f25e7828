import type { FastifyInstance } from 'fastify';

/** What the readiness probe and its reader want to know. */
export interface Readiness {
  ready: boolean;
  draining: boolean;
  /** Each dependency: whether it answers now, and what to do where it does not. */
  checks: Record<string, string>;
}

interface HealthRoutes {
  readiness: () => Promise<Readiness>;
}

/**
 * Liveness never looks at a dependency: restarting us heals none of them. Readiness does not turn when one goes away
 * later: all replicas would leave at once, and clients would get a proxy's error instead of our 503.
 */
export function healthRoutes(app: FastifyInstance, { readiness }: HealthRoutes, done: () => void): void {
  app.get('/health/live', () => ({ status: 'live' }));
  app.get('/health/ready', async (_request, reply) => {
    const { ready, draining, checks } = await readiness();
    if (!ready) reply.code(503).header('retry-after', '1');
    return { status: draining ? 'draining' : ready ? 'ready' : 'not ready', checks };
  });
  done();
}
