import type { Cluster, Redis } from 'ioredis';
import { infoOf, mastersOf, memoryShareOf } from './inspect.ts';
import { orUnavailable } from './connection/errors.ts';

/** How full Redis is. */
export interface MemoryUse {
  /** Asks every master. @throws AuthError `unavailable` */
  measure(): Promise<void>;
  /** The used share of `maxmemory` on the fullest master, as last measured; 0 without a limit. */
  share(): number;
  /** Whether to refuse what adds keys, so that refresh, verify and logout keep working. */
  isNearlyFull(): boolean;
}

/** Below the limit by this share, Redis is no longer nearly full: keys that expire must not switch it each second. */
const HYSTERESIS = 0.05;

/**
 * @param limit the share from which Redis is nearly full; 0 for never.
 * @param onChange called when `isNearlyFull` changes.
 */
export function makeMemoryUse(
  client: Redis | Cluster,
  { limit, onChange }: { limit: number; onChange: (isNearlyFull: boolean, share: number) => void },
): MemoryUse {
  let share = 0;
  let isNearlyFull = false;
  return {
    async measure() {
      const infos = await orUnavailable(
        Promise.all(mastersOf(client).map((master) => infoOf(master, 'memory'))),
      );
      share = Math.max(0, ...infos.map(memoryShareOf));
      const before = isNearlyFull;
      isNearlyFull = limit > 0 && share >= limit - (before ? HYSTERESIS : 0);
      if (isNearlyFull !== before) onChange(isNearlyFull, share);
    },
    share: () => share,
    isNearlyFull: () => isNearlyFull,
  };
}
