import { hostname } from 'node:os';
import type { Cluster, Redis } from 'ioredis';
import { orUnavailable } from './connection/errors.ts';

/** Milliseconds. Replicas write the key each second. */
const TTL = 5000;

/** Shows `latchkey recover` that a replica serves. */
export interface Heartbeat {
  /** @throws AuthError `unavailable` */
  beat(): Promise<void>;
  /** The host of a replica that has served within the last 5 s. @throws AuthError `unavailable` */
  servingReplica(): Promise<string | null>;
}

/** One key for all replicas: to know that one serves is enough. @param prefix REDIS_PREFIX. */
export function makeHeartbeat(redis: Redis | Cluster, prefix: string): Heartbeat {
  const key = `${prefix}serving`;
  return {
    async beat() {
      await orUnavailable(redis.set(key, hostname(), 'PX', TTL));
    },
    servingReplica: () => orUnavailable(redis.get(key)),
  };
}
