import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import { AuthError } from '../../domain/errors.ts';
import type { Observe } from '../../domain/metrics/observe.ts';

export interface LoadSheddingOptions {
  /** How late the event loop is, in milliseconds. */
  lag: () => number;
  /** SHED_LAG: how late it may be; 0 for as late as it likes. */
  maxLag: number;
  /** Why a password could not be checked now; null where it could. */
  hashRefusal: () => AuthError | null;
  observe: Pick<Observe, 'late'>;
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Hooks of the routes that cost most and can best wait: they are refused before they cost anything, so that refresh
     * and verify, which have none of this, go on. This one where the whole process is late.
     */
    refuseWhenLate: onRequestHookHandler;
    /** Where passwords cannot be checked in time. After the limit by address, which has to count these too. */
    refuseWhenFull: onRequestHookHandler;
  }
}

/** Seconds: by then another replica may have taken some of the load. */
const RETRY_AFTER = 2;

function loadShedding(
  app: FastifyInstance,
  { lag, maxLag, hashRefusal, observe }: LoadSheddingOptions,
  done: () => void,
): void {
  app.decorate('refuseWhenLate', (_request, _reply, next) => {
    const isLate = maxLag > 0 && lag() > maxLag;
    if (isLate) observe.late();
    next(isLate ? new AuthError('overloaded', { retryAfter: RETRY_AFTER }) : undefined);
  });
  app.decorate('refuseWhenFull', (_request, _reply, next) => {
    next(hashRefusal() ?? undefined);
  });
  done();
}

export default fp(loadShedding, { name: 'load-shedding', fastify: '5.x' });
