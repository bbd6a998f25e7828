import { reasonOf } from '../../../domain/errors.ts';
import { pause } from '../../pause.ts';
import type { Connections } from './connections.ts';

/** Milliseconds between two attempts to replay. */
const RETRY = 250;

/** Identifies a set of connections. An answer counts only if the gate returns the same object afterwards. */
export type ConnectionEpoch = object;

/**
 * Blocks commands on a new connection until the revocations that Redis may have lost have been replayed: a restarted
 * Redis may have loaded an old snapshot, and a failover may promote a replica that was behind.
 * In a cluster, any new master closes the gate, and the client may be redirected to one in the middle of a command.
 * So an answer counts only if the connections have not changed since the command was sent.
 */
export interface ReplayGate {
  /** null while the gate is closed. */
  connectionEpoch(): ConnectionEpoch | null;
  /** Whether the connections lead to the Redis of this installation. Nothing may be written there before. */
  isAdmitted(): boolean;
  /**
   * @param replay sets the tombstones; repeated until it succeeds or the connection is lost.
   * @param report receives each new reason of failure once, and the first success after a failure.
   */
  start(replay: () => Promise<void>, report: { failed(reason: string): void; replayed(): void }): void;
}

/** @param admits whether these connections lead to the Redis of this installation; the gate closes when they no longer do. */
export function makeReplayGate(
  connections: Connections,
  admits: (connections: readonly object[]) => boolean,
): ReplayGate {
  let replayed: readonly object[] | null = null;
  let reopen = (): void => undefined;

  function observe(): void {
    const current = connections.current();
    if (replayed && isSame(replayed, current) && admits(current)) return;
    replayed = null;
    reopen();
  }

  return {
    connectionEpoch() {
      observe();
      return replayed;
    },
    isAdmitted: () => admits(connections.current()),
    start(replay, report) {
      let isRunning = false;
      let failure: string | null = null;
      const run = async () => {
        if (isRunning) return;
        isRunning = true;
        for (let current = connections.current(); current.length > 0 && !replayed;) {
          try {
            await replay();
            if (failure !== null) report.replayed();
            failure = null;
            // A connection opened during the replay has missed a part of it.
            const now = connections.current();
            if (isSame(current, now)) replayed = now;
            current = now;
          } catch (error) {
            // Retries follow quickly: only a new reason is worth a log line.
            const reason = reasonOf(error);
            if (reason !== failure) report.failed(reason);
            failure = reason;
            await pause(RETRY);
            current = connections.current();
          }
        }
        isRunning = false;
      };
      reopen = () => void run();
      connections.onChange(observe);
      observe();
    },
  };
}

/** Whether these are the same open connections. */
export function isSame(some: readonly object[], others: readonly object[]): boolean {
  if (some === others) return true;
  return some.length > 0 && some.length === others.length && some.every((each, i) => each === others[i]);
}
