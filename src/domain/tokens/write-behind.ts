import type { TokenKey } from '../principal.ts';
import type { Clock } from '../clock.ts';
import type { RevocationStore, StateWriter } from './ports.ts';
import type { TokenStateStore } from './token-state-store.ts';
import type { SessionState } from './session-state.ts';

interface WriteBehindPorts {
  writer: StateWriter;
  tokenStates: Pick<TokenStateStore, 'revokeAll'>;
  revocations: Pick<RevocationStore, 'settle'>;
  clock: Pick<Clock, 'monotonic'>;
}

/** The most rows of one statement: large enough to keep up, small enough not to hold many rows for long. */
const BATCH = 500;
/** Its multiples modulo 1 are spread evenly, and successive ones are far apart: 1 minus the golden ratio. */
const STEP = 0.382;

/**
 * Queues rotations and uses in memory while requests are served, and writes them to the records in batches. Only the
 * newest state of a session is kept, so the queue grows with the sessions in use and not with their refreshes. A killed
 * replica loses only what it had queued. A client's newer token then moves the state on (rotation.ts); reuse detection
 * misses the lost rotations.
 */
export function makeWriteBehind({ writer, tokenStates, revocations, clock }: WriteBehindPorts) {
  const rotations = new Map<number, { key: TokenKey; state: SessionState }>();
  const uses = new Map<number, number>();
  /** Sessions that were rotated here, and are revoked or purged on record: they must stay ended. */
  let over: TokenKey[] = [];
  let flushing: Promise<void> | null = null;
  /** When the oldest queued entry was added, and the oldest one being written; by Clock.monotonic. */
  let since: number | null = null;
  let writingSince: number | null = null;

  function note(key: TokenKey, state: SessionState): void {
    const noted = rotations.get(key.tokenId)?.state;
    if (noted && !isNewer(state, noted)) return;
    since ??= clock.monotonic();
    rotations.set(key.tokenId, { key, state });
  }

  /** @param at milliseconds since 1970. */
  function noteUse(tokenId: number, at: number): void {
    since ??= clock.monotonic();
    uses.set(tokenId, Math.max(at, uses.get(tokenId) ?? 0));
  }

  async function writeRotations(): Promise<void> {
    const batches = takeBatches(rotations);
    try {
      for (let batch = batches[0]; batch; batch = batches[0]) {
        over.push(...(await writer.saveStates(batch.map(([, { key, state }]) => ({ ...key, state })))));
        batches.shift();
      }
    } finally {
      for (const [, { key, state }] of batches.flat()) note(key, state);
    }
  }

  async function writeUses(): Promise<void> {
    const batches = takeBatches(uses);
    try {
      for (let batch = batches[0]; batch; batch = batches[0]) {
        await writer.saveUses(batch.map(([tokenId, at]) => ({ tokenId, at })));
        batches.shift();
      }
    } finally {
      for (const [tokenId, at] of batches.flat()) noteUse(tokenId, at);
    }
  }

  async function endOver(): Promise<void> {
    await tokenStates.revokeAll(over);
    await revocations.settle(over.map(({ tokenId }) => tokenId));
    over = [];
  }

  async function writeAll(): Promise<void> {
    writingSince = since;
    since = null;
    try {
      await writeRotations();
      await writeUses();
    } catch (error) {
      since = writingSince;
      throw error;
    } finally {
      // Entries queued meanwhile may have been written too.
      if (rotations.size + uses.size === 0) since = null;
      writingSince = null;
      // After the records, because they do not need the fast store; also if some could not be written.
      await endOver();
    }
  }

  return {
    note,
    noteUse,
    /**
     * Writes all queued entries; one flush at a time.
     * @throws AuthError `unavailable`; then the entries stay queued.
     */
    flush(): Promise<void> {
      flushing ??= writeAll().finally(() => {
        flushing = null;
      });
      return flushing;
    },
    /** How many entries are queued. */
    size: () => rotations.size + uses.size,
    /** Age of the oldest entry, in milliseconds; 0 if there is none. */
    lag: () => {
      const oldest = writingSince ?? since;
      return oldest === null ? 0 : clock.monotonic() - oldest;
    },
  };
}

export type WriteBehind = ReturnType<typeof makeWriteBehind>;

function isNewer(state: SessionState, than: SessionState): boolean {
  return state.latest > than.latest || (state.latest === than.latest && state.confirmed);
}

/**
 * Empties a queue. Each batch is sorted by id: all replicas take their locks in this order. Neighbors go to batches far
 * apart: a page of the table has room for new versions of a few rows at a time, and needs time to free the old ones
 * (docs/adr/0017).
 */
function takeBatches<Value>(queue: Map<number, Value>): [number, Value][][] {
  const entries = [...queue].sort(([a], [b]) => a - b);
  queue.clear();
  const count = Math.ceil(entries.length / BATCH);
  const placeOf = (batch: number) => (batch * STEP) % 1;
  const order = Array.from({ length: count }, (_, i) => i).sort((a, b) => placeOf(a) - placeOf(b));
  return order.map((first) => everyNth(entries, first, count));
}

function everyNth<Entry>(entries: readonly Entry[], first: number, step: number): Entry[] {
  const count = Math.ceil((entries.length - first) / step);
  return Array.from({ length: count }, (_, i) => entries[first + i * step] as Entry);
}
