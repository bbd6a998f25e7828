import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import { AuthError } from '../../domain/errors.ts';
import type { Bulkhead, Share } from '../../domain/passwords/bulkhead.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { callerTurn } from '../caller/network.ts';

export interface LoadSheddingOptions {
  /** How late the event loop is, in milliseconds. */
  lag: () => number;
  /** SHED_LAG: the longest lag allowed; 0 for no limit. */
  maxLag: number;
  /** The refusal if a password of this caller cannot be hashed now; else null. */
  hashRefusal: Bulkhead['tryAdmit'];
  /** Whether the fast store is nearly full. */
  isStoreFull: () => boolean;
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
     * The hook that refuses a request if its password cannot be hashed in time. Runs after the limit by address, which
     * counts it.
     */
    refuseWhenFull(share: Share): onRequestHookHandler;
    /**
     * Refuses a request if the fast store is nearly full. For the routes that add keys: what is left of the memory
     * keeps refresh and logout working. Runs before the limit by address, which adds a key too.
     */
    refuseWhenStoreFull: onRequestHookHandler;
  }
}

/** Seconds: by then another replica may have taken some of the load. */
const RETRY_AFTER = 2;
/** Seconds. Keys expire all the time, and an operator may raise the limit at any moment. */
const RETRY_WHEN_FULL = 5;

function loadShedding(
  app: FastifyInstance,
  { lag, maxLag, hashRefusal, isStoreFull, observe }: LoadSheddingOptions,
  done: () => void,
): void {
  app.decorate('refuseWhenLate', (_request, _reply, next) => {
    const isLate = maxLag > 0 && lag() > maxLag;
    if (isLate) observe.late();
    next(isLate ? new AuthError('overloaded', { retryAfter: RETRY_AFTER }) : undefined);
  });
  app.decorate('refuseWhenFull', (share: Share): onRequestHookHandler => (request, _reply, next) => {
    next(hashRefusal(share, callerTurn(request)) ?? undefined);
  });
  app.decorate('refuseWhenStoreFull', (_request, _reply, next) => {
    next(isStoreFull() ? new AuthError('overloaded', { retryAfter: RETRY_WHEN_FULL }) : undefined);
  });
  done();
}

export default fp(loadShedding, { name: 'load-shedding', fastify: '5.x' });
