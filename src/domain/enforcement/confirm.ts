import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { BoundedQueues } from '../limits/bounded.ts';
import { readerName, type Confirmation, type FeedReaderStore, type ReaderKey } from './ports.ts';

interface ConfirmPorts {
  store: Pick<FeedReaderStore, 'confirm' | 'remove'>;
  clock: Pick<Clock, 'now' | 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  pause: (ms: number) => Promise<unknown>;
  boundedQueue: BoundedQueues;
  /** REVOCATION_READERS_PER_CLIENT: how many readers of one service may wait. */
  perService: number;
  /** DATABASE_TIMEOUT: how long a request may wait for its write to begin, in milliseconds. */
  patience: number;
  /** How many readers the installation has. */
  readers: () => number;
}

/** The last confirmation of a reader that is not written, and the requests that wait for it. */
interface Held {
  confirmation: Confirmation;
  resolve: () => void;
  reject: (cause: unknown) => void;
  written: Promise<void>;
}

/** Milliseconds between two writes. */
const INTERVAL = 250;
/** Confirmations that may wait: a few seconds of the most that readers may send (see `afterOf`). */
const MAX_CONFIRMATIONS = 5000;
/** Confirmations a second that all readers together send. */
const RATE = 500;

/**
 * Writes what readers confirm: each replica together, at most four times a second, because every reader confirms every
 * event. A reader that confirms again before it is written replaces what it said.
 */
export function makeConfirm(ports: ConfirmPorts) {
  const { store, clock, pause, perService } = ports;
  const line = ports.boundedQueue<string, Held>({
    queue: 'confirmations',
    most: MAX_CONFIRMATIONS,
    patience: ports.patience,
    onDrop: ({ confirmation, reject }) => {
      leave(confirmation.serviceId);
      reject(new AuthError('unavailable'));
    },
  });
  /** How many of the line are of each service. */
  const waiting = new Map<string, number>();
  let writing: Promise<void> | null = null;
  let isRunning = false;
  let writtenAt = -Infinity;

  const waitingOf = (serviceId: string): number => waiting.get(serviceId) ?? 0;

  function leave(serviceId: string): void {
    const left = waitingOf(serviceId) - 1;
    if (left > 0) waiting.set(serviceId, left);
    else waiting.delete(serviceId);
  }

  function hold(confirmation: Confirmation): Promise<void> {
    const key = readerName(confirmation);
    const known = line.get(key);
    if (known) {
      known.confirmation = confirmation;
      return known.written;
    }
    if (waitingOf(confirmation.serviceId) >= perService) throw new AuthError('unavailable');
    const held = heldOf(confirmation);
    if (!line.set(key, held)) throw new AuthError('unavailable');
    waiting.set(confirmation.serviceId, waitingOf(confirmation.serviceId) + 1);
    void writeAll();
    return held.written;
  }

  async function writeAll(): Promise<void> {
    if (isRunning) return;
    isRunning = true;
    while (line.size() > 0) {
      const wait = writtenAt + INTERVAL - clock.monotonic();
      if (wait > 0) await pause(wait);
      writtenAt = clock.monotonic();
      waiting.clear();
      writing = write(line.takeAll());
      await writing;
    }
    isRunning = false;
  }

  async function write(batch: readonly Held[]): Promise<void> {
    try {
      await store.confirm(
        batch.map(({ confirmation }) => confirmation),
        clock.now(),
      );
      for (const { resolve } of batch) resolve();
    } catch (cause) {
      for (const { reject } of batch) reject(cause);
    }
  }

  return {
    /**
     * Resolves once it is on record.
     * @returns after how many seconds the reader may confirm again. @throws AuthError `unavailable`
     */
    confirm: async (confirmation: Confirmation): Promise<number> => {
      await hold(confirmation);
      return Math.max(1, Math.ceil(ports.readers() / RATE));
    },

    /** The process accepts no more tokens. What it confirmed before does not come back. @throws AuthError `unavailable` */
    sayGoodbye: async (key: ReaderKey): Promise<void> => {
      const name = readerName(key);
      const held = line.get(name);
      if (held) {
        line.delete(name);
        leave(key.serviceId);
        held.resolve();
      }
      await writing;
      await store.remove(key);
    },
  };
}

export type ConfirmReaders = ReturnType<typeof makeConfirm>;

function heldOf(confirmation: Confirmation): Held {
  let resolve: Held['resolve'] = () => undefined;
  let reject: Held['reject'] = () => undefined;
  const written = new Promise<void>((...settle) => {
    [resolve, reject] = settle;
  });
  return { confirmation, resolve, reject, written };
}
