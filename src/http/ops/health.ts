import type { FastifyInstance } from 'fastify';
import type { Build } from '../../telemetry/build.ts';

/** The result of the readiness probe. */
export interface Readiness {
  ready: boolean;
  draining: boolean;
  /** For each dependency whether it answers now, or what to do if not. */
  checks: Record<string, string>;
  /** `ok`, or how the clock differs from the stores', and what to do. */
  clock: string;
}

interface HealthRoutes {
  readiness: () => Promise<Readiness>;
  build: Build;
}

/**
 * Liveness checks no dependency: a restart would repair none of them. Readiness stays true if a dependency fails later:
 * otherwise all replicas would leave at once, and clients would get a proxy's error instead of our 503. A wrong clock is
 * the replica's own fault, so that takes it out.
 */
export function healthRoutes(
  app: FastifyInstance,
  { readiness, build }: HealthRoutes,
  done: () => void,
): void {
  app.get('/health/live', () => ({ status: 'live' }));
  app.get('/health/ready', async (_request, reply) => {
    const { ready, draining, checks, clock } = await readiness();
    if (!ready) reply.code(503).header('retry-after', '1');
    return { status: draining ? 'draining' : ready ? 'ready' : 'not ready', ...build, checks, clock };
  });
  done();
}
