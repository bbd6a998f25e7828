import type { Passage } from './replay-gate.ts';

/**
 * Redis's clock as far as a replica knows it. A command that was sent is not to be taken back: a network that was away
 * delivers it when it returns, however late. So it says when it was sent, by the clock of the one who runs it.
 */
export interface RedisClock {
  /**
   * Runs a command that has to know what time it is for Redis at this moment, and learns from its answer.
   * @param passage the connections that are asked: of others nothing is known.
   * @param key says which master of a cluster; their clocks may differ.
   * @param send is given the time in microseconds.
   * @param timeOf the time at which the command ran, in microseconds, where its answer says it.
   */
  timed<Reply>(
    passage: Passage,
    key: string,
    send: (now: number) => Promise<Reply>,
    timeOf: (reply: Reply) => number | null,
  ): Promise<Reply>;
}

interface RedisClockPorts {
  /** Asks the master that holds a key: seconds, and microseconds. */
  ask: (key: string) => Promise<[string, string]>;
  masterOf: (key: string) => string;
  /** Microseconds since some start. */
  monotonic?: () => number;
}

/** Redis's clock less ours, and when that was learned by ours. */
interface Estimate {
  offset: number;
  at: number;
}

/** Longer ago Redis's clock may have been set, or may have gone faster or slower: it is asked first. Microseconds. */
const MAX_AGE = 60_000_000;

export function makeRedisClock({
  ask,
  masterOf,
  monotonic = () => performance.now() * 1000,
}: RedisClockPorts): RedisClock {
  const estimates = new WeakMap<Passage, Map<string, Estimate>>();

  return {
    async timed(passage, key, send, timeOf) {
      const known = estimates.get(passage) ?? new Map<string, Estimate>();
      estimates.set(passage, known);
      const master = masterOf(key);
      const learn = async <Reply>(command: () => Promise<Reply>, time: (reply: Reply) => number | null) => {
        const sent = monotonic();
        const reply = await command();
        const now = time(reply);
        if (now !== null) {
          const received = monotonic();
          const offset = narrow(known.get(master)?.offset, now - received, now - sent);
          known.set(master, { offset, at: received });
        }
        return reply;
      };
      const current = () => {
        const estimate = known.get(master);
        return estimate && asked - estimate.at <= MAX_AGE ? estimate : null;
      };

      // The time that the question for the time takes is the request's as well.
      const asked = monotonic();
      if (!current()) await learn(() => ask(key), readTime);
      const offset = current()?.offset ?? 0;
      // Rounded up: what is sent after an answer is sent later than the microsecond in which that was made.
      return learn(() => send(Math.ceil(asked + offset)), timeOf);
    },
  };
}

/**
 * What an answer proves: Redis's time was read after the command was sent and before its answer came. Within that the
 * estimate stays, so that a slow answer does not spoil what a quick one has told; beyond it a clock was set. The first
 * is the lowest: by no more than the way back a request seems older than it is, never younger, and what was sent before
 * a pair was issued is never taken for a later one.
 */
function narrow(offset: number | undefined, lowest: number, highest: number): number {
  return Math.min(Math.max(offset ?? lowest, lowest), highest);
}

function readTime([seconds, micros]: [string, string]): number {
  return Number(seconds) * 1_000_000 + Number(micros);
}
