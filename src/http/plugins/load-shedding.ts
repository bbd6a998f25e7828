import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import { AuthError } from '../../domain/errors.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { callerAddress } from '../caller/address.ts';

export interface LoadSheddingOptions {
  /** How late the event loop is, in milliseconds. */
  lag: () => number;
  /** SHED_LAG: the longest lag allowed; 0 for no limit. */
  maxLag: number;
  /** The refusal if a password from this address cannot be checked now; else null. */
  hashRefusal: (address: string) => AuthError | null;
  observe: Pick<Observe, 'late'>;
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * Refuses a request if the event loop is late. For the expensive routes that can wait: an early refusal costs
     * little, and keeps refresh and verify, which have no such hook, responsive.
     */
    refuseWhenLate: onRequestHookHandler;
    /**
     * Refuses a request if its password cannot be checked in time. Runs after the limit by address, which counts it.
     */
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
  app.decorate('refuseWhenFull', (request, _reply, next) => {
    next(hashRefusal(callerAddress(request)) ?? undefined);
  });
  done();
}

export default fp(loadShedding, { name: 'load-shedding', fastify: '5.x' });
