import type { Connections } from './connections.ts';

/** Between two tries to replay, in milliseconds. */
const RETRY = 250;

/** What an answer was asked under: it counts only if the gate still gives the same one afterwards. */
export type Passage = object;

/**
 * Holds back every question to a new connection until the revocations that it may have forgotten have been replayed: a
 * restarted Redis may come back from an old snapshot, and a failover may lead to a replica that was behind.
 * In a cluster any new master closes it, and the client may come upon one in the middle of a command: therefore an
 * answer is let through only if nothing has changed since it was asked for.
 */
export interface ReplayGate {
  /** null while it is closed. */
  passage(): Passage | null;
  /** @param replay sets the tombstones; tried until it succeeds or the connection is lost. */
  start(replay: () => Promise<void>, onError: (error: Error) => void): void;
}

export function makeReplayGate(connections: Connections): ReplayGate {
  let replayed: readonly object[] | null = null;
  let reopen = (): void => undefined;

  function observe(): void {
    if (replayed && isSame(replayed, connections.current())) return;
    replayed = null;
    reopen();
  }

  return {
    passage() {
      observe();
      return replayed;
    },
    start(replay, onError) {
      let isRunning = false;
      const run = async () => {
        if (isRunning) return;
        isRunning = true;
        for (let current = connections.current(); current.length > 0 && !replayed;) {
          try {
            await replay();
            // A connection that came meanwhile has missed some of it.
            const now = connections.current();
            if (isSame(current, now)) replayed = now;
            current = now;
          } catch (error) {
            onError(error as Error);
            await new Promise((resolve) => setTimeout(resolve, RETRY).unref());
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

function isSame(some: readonly object[], others: readonly object[]): boolean {
  if (some === others) return true;
  return some.length > 0 && some.length === others.length && some.every((each, i) => each === others[i]);
}
