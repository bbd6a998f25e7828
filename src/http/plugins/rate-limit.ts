import rateLimit, { type CreateRateLimitOptions } from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import type { BlockList } from 'node:net';
import { isIPv6 } from 'node:net';
import { AuthError } from '../../domain/errors.ts';
import type { Observe } from '../../domain/metrics/observe.ts';

export interface RateLimitOptions {
  /** Where the counters live; in this process where it is null. */
  redis: object | null;
  /** Prefix of the counters' keys. */
  nameSpace: string;
  /** RATE_LIMIT_ALLOW: addresses without limits. */
  allow: BlockList;
  observe: Pick<Observe, 'rateLimited'>;
}

/** A limit; null for none. */
export type Limit = { count: number; seconds: number } | null;

declare module 'fastify' {
  interface FastifyInstance {
    /** A hook that counts the requests of an address under this name. */
    limitByAddress(name: 'login' | 'signup', limit: Limit): onRequestAsyncHookHandler;
  }
}

async function rateLimitPlugin(
  app: FastifyInstance,
  { redis, nameSpace, allow, observe }: RateLimitOptions,
): Promise<void> {
  await app.register(rateLimit, { global: false, nameSpace, ...(redis && { redis }) });

  app.decorate('limitByAddress', (name: 'login' | 'signup', limit: Limit): onRequestAsyncHookHandler => {
    if (!limit) return () => Promise.resolve();
    const options: CreateRateLimitOptions = {
      max: limit.count,
      timeWindow: limit.seconds * 1000,
      keyGenerator: (request) => `${name}:${rateLimit.normalizeIP(request.ip, 64)}`,
      allowList: (request) => isAllowed(request, allow),
    };
    const count = app.createRateLimit(options);
    return async (request) => {
      const result = await count(request).catch((cause: unknown) => {
        throw new AuthError('unavailable', { cause });
      });
      if (result.isAllowed || !result.isExceeded) return;
      observe.rateLimited(name);
      throw new AuthError('rate_limited', { retryAfter: result.ttlInSeconds });
    };
  });
}

function isAllowed({ ip }: FastifyRequest, allow: BlockList): boolean {
  return allow.check(ip, isIPv6(ip) ? 'ipv6' : 'ipv4');
}

export default fp(rateLimitPlugin, { name: 'rate-limit', fastify: '5.x' });
