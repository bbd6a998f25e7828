import { randomBytes } from 'node:crypto';
import type { AttemptSlots } from '../../domain/limits/ports.ts';
import { makeScriptClient, type ScriptClientOptions } from './script-client.ts';
import type { ScriptedCluster, ScriptedRedis } from './connection/scripts.ts';

export interface RedisAttemptOptions extends ScriptClientOptions {
  /** REDIS_PREFIX. */
  prefix: string;
}

/**
 * Slots for attempts in Redis: one script per operation. The scripts use only commands that the ACL of
 * docs/operating.md has always allowed, so an upgrade does not need a new ACL.
 */
export function makeRedisAttemptSlots(
  redis: ScriptedRedis | ScriptedCluster,
  { prefix, ...options }: RedisAttemptOptions,
): AttemptSlots {
  // No hash tag: a cluster spreads the counters over its slots.
  const keyOf = (counter: string) => `${prefix}attempts:${counter}`;
  const scripts = makeScriptClient(redis, options);
  const release = (counter: string, slot: string) => scripts.release([keyOf(counter), slot]);

  return {
    async reserve(counter, { count, seconds }) {
      const slot = randomBytes(6).toString('base64url');
      try {
        const reserved = await scripts.reserve([keyOf(counter), count, seconds * 1000, slot]);
        return 'freeIn' in reserved ? reserved : { slot, ...reserved };
      } catch (error) {
        // A hung Redis still runs `reserve` when it resumes. `release` follows on the same connection.
        release(counter, slot).catch(() => undefined);
        throw error;
      }
    },

    release,
  };
}
