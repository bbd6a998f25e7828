import { AuthError } from '../../domain/errors.ts';
import type { Observe } from '../../telemetry/observe.ts';
import type { StoreOperation } from '../../telemetry/outcomes.ts';
import { failureOf, orUnavailable, unavailable } from './connection/errors.ts';
import type { ConnectionEpoch, ReplayGate } from './connection/replay-gate.ts';
import type { Argument, ScriptedCluster, ScriptedRedis, ScriptName, Scripts } from './connection/scripts.ts';

type Reply<Name extends ScriptName> = Awaited<ReturnType<Scripts[Name]>>;

export interface AskOptions {
  /** Closed after a reconnect, until the revocations that Redis may have lost have been replayed. */
  gate: Pick<ReplayGate, 'connectionEpoch'>;
  observe: Pick<Observe, 'redisAnswered' | 'redisFailed'>;
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
 * Sends commands to Redis. Hides the replay gate, timeouts and metrics. What sends is one round trip, and throws
 * AuthError `unavailable` if there is no reliable answer.
 */
export interface AskRedis {
  /** Runs a script while the gate is open. The reply counts only if the same masters are connected afterwards. */
  ask: <Name extends ScriptName>(script: Name, ...args: Argument[]) => Promise<Reply<Name>>;
  /**
   * The connections that answer now.
   * @param expected throws also if the connections are no longer these.
   * @throws AuthError `unavailable` while the gate is closed.
   */
  connectionEpoch: (expected?: ConnectionEpoch) => ConnectionEpoch;
  /** Redis's clock, in microseconds. */
  now: () => Promise<number>;
  /** Runs a script even if the gate is closed. */
  askUngated: <Name extends ScriptName>(script: Name, ...args: Argument[]) => Promise<Reply<Name>>;
  /** Like `askUngated`, once for each list of arguments. It measures no latency, and counts one failure at most. */
  askEachUngated: (script: ScriptName, lists: readonly (readonly Argument[])[]) => Promise<void>;
  /** The error of one token whose reply stands beside those of others, for the caller to throw. Counts it. */
  replyError: (message: string) => AuthError;
}

export function makeAsk(redis: ScriptedRedis | ScriptedCluster, { gate, observe }: AskOptions): AskRedis {
  function connectionEpoch(expected?: ConnectionEpoch): ConnectionEpoch {
    const current = gate.connectionEpoch();
    if (current && (expected === undefined || current === expected)) return current;
    observe.redisFailed('not_ready');
    throw new AuthError('unavailable');
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
    const before = connectionEpoch();
    const answer = await measured(operation, send());
    connectionEpoch(before);
    return answer;
  }

  function run<Name extends ScriptName>(script: Name, args: readonly Argument[]): Promise<Reply<Name>> {
    return redis[script](...args) as Promise<Reply<Name>>;
  }

  return {
    connectionEpoch,
    ask: (script, ...args) => gated(OPERATIONS[script], () => run(script, args)),
    async now() {
      const [seconds, micros] = await gated('now', () => redis.time());
      return Number(seconds) * 1_000_000 + Number(micros);
    },
    askUngated: (script, ...args) => measured(OPERATIONS[script], run(script, args)),
    async askEachUngated(script, lists) {
      await orUnavailable(Promise.all(lists.map((args) => run(script, args))), failed);
    },
    replyError(message) {
      const cause = Object.assign(new Error(message), { name: 'ReplyError' });
      failed(cause);
      return unavailable(cause);
    },
  };
}
