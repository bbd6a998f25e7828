import type { TokenKey } from '../principal.ts';
import type { Clock } from '../clock.ts';
import type { BoundedQueue, BoundedQueues } from '../limits/bounded.ts';
import type { RevocationStore, StateWriter } from './ports.ts';
import type { TokenStateStore } from './token-state-store.ts';
import type { SessionState } from './session-state.ts';

interface WriteBehindPorts {
  writer: StateWriter;
  tokenStates: Pick<TokenStateStore, 'revokeAll'>;
  revocations: Pick<RevocationStore, 'settle'>;
  clock: Clock;
  boundedQueue: BoundedQueues;
}

/** What may be queued: minutes of a busy replica. */
const MAX_WRITES = 200_000;
/** How many give way at once. */
const DROPPED = 1000;
/** The most rows of one statement: large enough to keep up, small enough not to hold many rows for long. */
const BATCH = 500;
/** Its multiples modulo 1 are spread evenly, and successive ones are far apart: 1 minus the golden ratio. */
const STEP = 0.382;

/**
 * Queues rotations and uses in memory while requests are served, and writes them to the records in batches. Only the
 * newest state of a session is kept, so the queue grows with the sessions in use and not with their refreshes. A killed
 * replica loses only what it had queued. A client's newer token then moves the state on (rotation.ts); reuse detection
 * misses the lost rotations. A full queue drops uses, and then the oldest rotations, with the same consequence.
 */
export function makeWriteBehind({ writer, tokenStates, revocations, clock, boundedQueue }: WriteBehindPorts) {
  const limits = { queue: 'write_behind', most: MAX_WRITES, patience: null } as const;
  const rotations: BoundedQueue<number, { key: TokenKey; state: SessionState }> = boundedQueue({
    ...limits,
    beside: () => reported.size() + uses.size() + ended.length,
    makeRoom: () => reported.dropOldest(DROPPED) || uses.dropOldest(DROPPED) || rotations.dropOldest(DROPPED),
  });
  const uses: BoundedQueue<number, number> = boundedQueue({
    ...limits,
    beside: () => reported.size() + rotations.size() + ended.length,
    makeRoom: () => reported.dropOldest(DROPPED) || uses.dropOldest(DROPPED),
  });
  /** Uses that services report. They may name any ids, so these are the first to be dropped. */
  const reported: BoundedQueue<number, number> = boundedQueue({
    ...limits,
    beside: () => uses.size() + rotations.size() + ended.length,
    makeRoom: () => reported.dropOldest(DROPPED),
  });
  /** Sessions that were rotated here, and are revoked or purged on record: they must stay ended. */
  let ended: TokenKey[] = [];
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

  /**
   * Notes tokens that a service took without asking, as used now. By a wrong clock they would seem to be used
   * at another time, so it notes nothing then: a token that stays in use is reported again a minute later.
   */
  function noteReported(tokenIds: readonly number[]): void {
    if (!clock.isTrusted()) return;
    const at = clock.now();
    since ??= clock.monotonic();
    for (const tokenId of tokenIds) reported.set(tokenId, at);
  }

  async function writeRotations(): Promise<void> {
    await writeBatches(rotations, async (batch) => {
      ended.push(...(await writer.saveStates(batch.map(([, { key, state }]) => ({ ...key, state })))));
    });
  }

  async function writeUses(): Promise<void> {
    const asUses = (batch: [number, number][]) => batch.map(([tokenId, at]) => ({ tokenId, at }));
    await writeBatches(uses, (batch) => writer.saveUses(asUses(batch)));
    await writeBatches(reported, (batch) => writer.saveReportedUses(asUses(batch)));
  }

  async function endOver(): Promise<void> {
    await tokenStates.revokeAll(ended);
    await revocations.settle(ended.map(({ tokenId }) => tokenId));
    ended = [];
  }

  const size = () => rotations.size() + uses.size() + reported.size();

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
      if (size() === 0) since = null;
      writingSince = null;
      // After the records, because they do not need the fast store; also if some could not be written.
      await endOver();
    }
  }

  return {
    note,
    noteUse,
    noteReported,
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
    size,
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

/** Writes a queue, which keeps an entry until it is written, and a newer one that came meanwhile. */
async function writeBatches<Value>(
  queue: BoundedQueue<number, Value>,
  write: (batch: [number, Value][]) => Promise<void>,
): Promise<void> {
  for (const batch of batchesOf(queue)) {
    await write(batch);
    for (const [tokenId, value] of batch) if (queue.get(tokenId) === value) queue.delete(tokenId);
  }
}

/**
 * Each batch is sorted by id: all replicas take their locks in this order. Neighbors go to batches far apart: a page of
 * the table has room for new versions of a few rows at a time, and needs time to free the old ones (docs/adr/0017).
 */
function batchesOf<Value>(queue: BoundedQueue<number, Value>): [number, Value][][] {
  const entries = queue.entries().sort(([a], [b]) => a - b);
  const count = Math.ceil(entries.length / BATCH);
  const placeOf = (batch: number) => (batch * STEP) % 1;
  const order = Array.from({ length: count }, (_, i) => i).sort((a, b) => placeOf(a) - placeOf(b));
  return order.map((first) => everyNth(entries, first, count));
}

function everyNth<Entry>(entries: readonly Entry[], first: number, step: number): Entry[] {
  const count = Math.ceil((entries.length - first) / step);
  return Array.from({ length: count }, (_, i) => entries[first + i * step] as Entry);
}
