import rateLimit, { type CreateRateLimitOptions } from '@fastify/rate-limit';
import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import type { AuditLimit } from '../../domain/audit/event.ts';
import { AuthError } from '../../domain/errors.ts';
import type { LimitBy } from '../../domain/limits/counter-keys.ts';
import { addressOf } from '../caller/address.ts';
import type { CallerHashes } from '../caller/fingerprint.ts';
import { isAllowed } from '../caller/network.ts';
import type { Config } from '../../config/config.ts';

/** null for none. */
type Limit = Config['RATE_LIMIT_LOGIN'];

export interface RateLimitOptions {
  /** Holds the counters; null for counters in this process. */
  redis: object | null;
  /** Prefix of the counters' keys. */
  nameSpace: string;
  config: Pick<Config, 'RATE_LIMIT_LOGIN' | 'RATE_LIMIT_SIGNUP' | 'RATE_LIMIT_ALLOW'>;
  auditLimit: AuditLimit;
  /** Neither Redis nor the log holds an address. */
  hashes: Pick<CallerHashes, 'newest'>;
}

declare module 'fastify' {
  interface FastifyInstance {
    /**
     * The hook that counts an address's requests under this name, and refuses those beyond the limit. Routes that
     * name the same limit share its counters.
     */
    limitByAddress(name: LimitBy<'address'>): onRequestAsyncHookHandler;
  }
}

async function rateLimitPlugin(
  app: FastifyInstance,
  { redis, nameSpace, config, auditLimit, hashes }: RateLimitOptions,
): Promise<void> {
  await app.register(rateLimit, { global: false, nameSpace, ...(redis && { redis }) });

  /** Of an IPv6 address only the /64 counts. All unreadable addresses share one key. */
  const keyOf = (name: string, request: FastifyRequest) =>
    `${name}:${hashes.newest(addressOf(request)?.parts ?? [], '')}`;

  function makeHook(name: LimitBy<'address'>, limit: Limit): onRequestAsyncHookHandler {
    if (!limit) return () => Promise.resolve();
    const options: CreateRateLimitOptions = {
      max: limit.count,
      timeWindow: limit.seconds * 1000,
      keyGenerator: (request) => keyOf(name, request),
      allowList: (request) => isAllowed(request, config.RATE_LIMIT_ALLOW),
    };
    const count = app.createRateLimit(options);
    return async (request) => {
      const result = await count(request).catch((cause: unknown) => {
        throw new AuthError('unavailable', { cause });
      });
      if (result.isAllowed || !result.isExceeded) return;
      const event = { event: 'limit.reached', limit: name, windowSeconds: limit.seconds } as const;
      const limited = keyOf(name, request);
      auditLimit(limited, event, request);
      throw new AuthError('rate_limited', { retryAfter: result.ttlInSeconds, reason: name, limited });
    };
  }

  // One hook for each name: without Redis, each holds its own counters.
  const hooks = {
    login: makeHook('login', config.RATE_LIMIT_LOGIN),
    signup: makeHook('signup', config.RATE_LIMIT_SIGNUP),
  };
  app.decorate('limitByAddress', (name: keyof typeof hooks) => hooks[name]);
}

export default fp(rateLimitPlugin, { name: 'rate-limit', fastify: '5.x' });
