import { AuthError } from '../../domain/errors.ts';
import type { Observe } from '../../telemetry/observe.ts';
import type { StoreOperation } from '../../telemetry/outcomes.ts';
import { masterOf } from './connection/connections.ts';
import { failureOf, orUnavailable, unavailable } from './connection/errors.ts';
import { makeRedisClock, type RedisClock } from './connection/redis-clock.ts';
import type { ReplayGate } from './connection/replay-gate.ts';
import type { Argument, ScriptedCluster, ScriptedRedis, ScriptName, Scripts } from './connection/scripts.ts';

type Reply<Name extends ScriptName> = Awaited<ReturnType<Scripts[Name]>>;

export interface AskOptions {
  /** Closed after a reconnect, until the revocations that Redis may have lost have been replayed. */
  gate: Pick<ReplayGate, 'connectionEpoch'>;
  observe: Pick<Observe, 'redisAnswered' | 'redisFailed'>;
  /** For tests. */
  clock?: RedisClock;
}

/** The names of the scripts in the metrics. */
const OPERATIONS: Record<ScriptName, StoreOperation> = {
  rotate: 'rotate',
  check: 'check',
  preparePut: 'prepare_put',
  put: 'put',
  putUser: 'put_user',
  revoke: 'revoke',
  lastUses: 'last_uses',
  clock: 'now',
  feed: 'feed',
  reserve: 'reserve',
  release: 'release',
};

/**
 * Sends commands to Redis. Hides the replay gate, the connections, the clock, timeouts and metrics.
 * Every function is one round trip, and throws AuthError `unavailable` if there is no reliable answer.
 */
export interface AskRedis {
  /** Runs a script while the gate is open. The reply counts only if the same masters are connected afterwards. */
  ask: <Name extends ScriptName>(script: Name, ...args: Argument[]) => Promise<Reply<Name>>;
  /**
   * Hands `send` the time of sending, in microseconds of Redis's clock. Learns that clock from the second field of the
   * reply.
   */
  askTimed: (key: string, send: (sentAt: number) => Promise<string[]>) => Promise<string[]>;
  /** Redis's clock, in microseconds. */
  now: () => Promise<number>;
  /** Runs a script even if the gate is closed. */
  askUngated: <Name extends ScriptName>(script: Name, ...args: Argument[]) => Promise<Reply<Name>>;
  /** The error of a reply that stands inside a larger one. */
  refused: (message: string) => AuthError;
  /** Like `askUngated`, once for each list of arguments. It measures no latency, and counts one failure at most. */
  askEach: (script: ScriptName, lists: readonly (readonly Argument[])[]) => Promise<void>;
}

export function makeAsk(
  redis: ScriptedRedis | ScriptedCluster,
  { gate, observe, ...options }: AskOptions,
): AskRedis {
  const clock =
    options.clock ??
    makeRedisClock({ ask: (key) => redis.clock(key), masterOf: (key) => masterOf(redis, key) });

  function notReady(): AuthError {
    observe.redisFailed('not_ready');
    return new AuthError('unavailable');
  }

  function failed(cause: unknown): void {
    observe.redisFailed(failureOf(cause));
  }

  async function measured<Answer>(operation: StoreOperation, command: Promise<Answer>): Promise<Answer> {
    const start = performance.now();
    try {
      const answer = await command;
      observe.redisAnswered(operation, (performance.now() - start) / 1000);
      return answer;
    } catch (cause) {
      failed(cause);
      throw unavailable(cause);
    }
  }

  async function gated<Answer>(operation: StoreOperation, send: () => Promise<Answer>): Promise<Answer> {
    const connectionEpoch = gate.connectionEpoch();
    if (!connectionEpoch) throw notReady();
    const answer = await measured(operation, send());
    if (gate.connectionEpoch() !== connectionEpoch) throw notReady();
    return answer;
  }

  function run<Name extends ScriptName>(script: Name, args: readonly Argument[]): Promise<Reply<Name>> {
    return redis[script](...args) as Promise<Reply<Name>>;
  }

  return {
    ask: (script, ...args) => gated(OPERATIONS[script], () => run(script, args)),
    async askTimed(key, send) {
      const connectionEpoch = gate.connectionEpoch();
      if (!connectionEpoch) throw notReady();
      const { sentAt, learn } = await orUnavailable(clock.stamp(connectionEpoch, key), failed);
      const reply = await send(sentAt);
      if (gate.connectionEpoch() !== connectionEpoch) throw notReady();
      const [, now] = reply;
      learn(now === undefined ? null : Number(now));
      return reply;
    },
    async now() {
      const [seconds, micros] = await gated('now', () => redis.time());
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    refused(message) {
      const cause = Object.assign(new Error(message), { name: 'ReplyError' });
      failed(cause);
      return unavailable(cause);
    },
    askUngated: (script, ...args) => measured(OPERATIONS[script], run(script, args)),
    async askEach(script, lists) {
      await orUnavailable(Promise.all(lists.map((args) => run(script, args))), failed);
    },
  };
}
