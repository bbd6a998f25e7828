import type { ConnectionEpoch } from './replay-gate.ts';

/**
 * A replica's estimate of Redis's clock. A sent command cannot be withdrawn: after an outage the network may deliver it
 * at any time. So each command carries the time of sending, by the clock of the server that runs it.
 */
export interface RedisClock {
  /**
   * Stamps a command that is about to be sent. Asks Redis for the time first if there is no recent estimate.
   * @param key selects the master in a cluster; clocks of masters differ.
   * @throws AuthError `unavailable`
   */
  stamp(key: string): Promise<Stamp>;
}

export interface Stamp {
  /** The time of sending by Redis's clock, in microseconds. The command carries it. */
  sentAt: number;
  /**
   * Improves the estimate.
   * @param ranAt when the command ran, by Redis's clock in microseconds; null if unknown.
   * @throws AuthError `unavailable` if the connections are no longer those of the stamp.
   */
  learn: (ranAt: number | null) => void;
}

interface RedisClockPorts {
  /** Reads the clock of the master that holds a key: seconds, and microseconds. @throws AuthError `unavailable` */
  ask: (key: string) => Promise<[string, string]>;
  /** As in `ScriptClient`. New connections need a new estimate. */
  connectionEpoch: (expected?: ConnectionEpoch) => ConnectionEpoch;
  masterOf: (key: string) => string;
  /** Microseconds since an arbitrary start. */
  monotonic?: () => number;
}

/** Redis's clock minus ours, and when we measured it by our clock. */
interface Estimate {
  offset: number;
  at: number;
}

/** Microseconds. An older estimate is measured again first: Redis's clock may have been set, or may have drifted. */
const MAX_AGE = 60_000_000;

export function makeRedisClock({
  ask,
  connectionEpoch,
  masterOf,
  monotonic = () => performance.now() * 1000,
}: RedisClockPorts): RedisClock {
  const estimates = new WeakMap<ConnectionEpoch, Map<string, Estimate>>();

  return {
    async stamp(key) {
      const connections = connectionEpoch();
      const byMaster = estimates.get(connections) ?? new Map<string, Estimate>();
      estimates.set(connections, byMaster);
      const master = masterOf(key);
      const learn = (sent: number, ranAt: number): Estimate => {
        const at = monotonic();
        const estimate = { offset: narrow(byMaster.get(master)?.offset, ranAt - at, ranAt - sent), at };
        byMaster.set(master, estimate);
        return estimate;
      };

      // The TIME round trip counts as elapsed time.
      const asked = monotonic();
      let estimate = byMaster.get(master);
      if (!estimate || asked - estimate.at > MAX_AGE) estimate = learn(asked, readTime(await ask(key)));
      const sent = monotonic();
      return {
        // Rounded up: a command sent after a reply is later than the microsecond in which Redis made that reply.
        sentAt: Math.ceil(asked + estimate.offset),
        learn: (ranAt) => {
          connectionEpoch(connections);
          if (ranAt !== null) learn(sent, ranAt);
        },
      };
    },
  };
}

/**
 * A reply proves that Redis read its clock after we sent the command and before we received the reply. An estimate
 * within these bounds stays, so that a slow reply does not spoil the result of a fast one. An estimate outside them
 * means that a clock was set. The first estimate is the lower bound: a request may seem older than it is, by at most
 * the way back, but never younger. So a request sent before a pair was issued never counts as a later one.
 */
function narrow(offset: number | undefined, lowest: number, highest: number): number {
  return Math.min(Math.max(offset ?? lowest, lowest), highest);
}

function readTime([seconds, micros]: [string, string]): number {
  return Number(seconds) * 1_000_000 + Number(micros);
}
