import type { Redis } from 'ioredis';

/** Between two tries to replay, in milliseconds. */
const RETRY = 500;

/**
 * Holds back every question to a new connection until the revocations that it may have forgotten have been replayed: a
 * restarted Redis may come back from an old snapshot, and a failover may lead to a replica that was behind.
 */
export interface ReplayGate {
  isOpen(): boolean;
  /** @param replay sets the tombstones; tried until it succeeds or the connection is lost. */
  start(replay: () => Promise<void>, onError: (error: Error) => void): void;
}

export function makeReplayGate(redis: Redis): ReplayGate {
  let open = false;
  let connection = 0;

  async function reopen(replay: () => Promise<void>, onError: (error: Error) => void): Promise<void> {
    const mine = connection;
    for (;;) {
      try {
        await replay();
        // Another connection may have come meanwhile: its own replay opens the gate.
        if (mine === connection) open = true;
        return;
      } catch (error) {
        onError(error as Error);
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY).unref());
      if (mine !== connection) return;
    }
  }

  return {
    isOpen: () => open,
    start(replay, onError) {
      redis.on('close', () => {
        connection++;
        open = false;
      });
      redis.on('ready', () => {
        connection++;
        open = false;
        void reopen(replay, onError);
      });
    },
  };
}
