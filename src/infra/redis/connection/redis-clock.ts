import type { ConnectionEpoch } from './replay-gate.ts';

/**
 * A replica's estimate of Redis's clock. A sent command cannot be withdrawn: after an outage the network may deliver it
 * at any time. So each command carries the time of sending, by the clock of the server that runs it.
 */
export interface RedisClock {
  /**
   * Stamps a command that is about to be sent. Asks Redis for the time first if there is no recent estimate.
   * @param connectionEpoch the connections that answer. A new connection needs a new estimate.
   * @param key selects the master in a cluster; clocks of masters differ.
   */
  stamp(connectionEpoch: ConnectionEpoch, key: string): Promise<Stamp>;
}

export interface Stamp {
  /** The time of sending by Redis's clock, in microseconds. The command carries it. */
  sentAt: number;
  /** Improves the estimate. @param now when the command ran, by Redis's clock in microseconds; null if unknown. */
  learn: (now: number | null) => void;
}

interface RedisClockPorts {
  /** Reads the clock of the master that holds a key: seconds, and microseconds. */
  ask: (key: string) => Promise<[string, string]>;
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
  masterOf,
  monotonic = () => performance.now() * 1000,
}: RedisClockPorts): RedisClock {
  const estimates = new WeakMap<ConnectionEpoch, Map<string, Estimate>>();

  return {
    async stamp(connectionEpoch, key) {
      const known = estimates.get(connectionEpoch) ?? new Map<string, Estimate>();
      estimates.set(connectionEpoch, known);
      const master = masterOf(key);
      // The TIME round trip counts as elapsed time.
      const asked = monotonic();
      const current = () => {
        const estimate = known.get(master);
        return estimate && asked - estimate.at <= MAX_AGE ? estimate : null;
      };
      const learn = (sent: number, now: number) => {
        const received = monotonic();
        const offset = narrow(known.get(master)?.offset, now - received, now - sent);
        known.set(master, { offset, at: received });
      };

      if (!current()) learn(asked, readTime(await ask(key)));
      const sent = monotonic();
      return {
        // Rounded up: a command sent after a reply is later than the microsecond in which Redis made that reply.
        sentAt: Math.ceil(asked + (current()?.offset ?? 0)),
        learn: (now) => {
          if (now !== null) learn(sent, now);
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
