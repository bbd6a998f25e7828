import type { Clock } from '../clock.ts';
import type { RevocationStore, StateWriter } from '../tokens/ports.ts';
import type { SessionStateStore, TokenKey } from './ports.ts';
import type { SessionState } from './rotation.ts';

interface WriteBehindPorts {
  writer: StateWriter;
  states: Pick<SessionStateStore, 'revokeAll'>;
  revocations: Pick<RevocationStore, 'settle'>;
  clock: Pick<Clock, 'monotonic'>;
}

/** Rows of one statement: large enough to keep up, small enough not to hold many rows for long. */
const BATCH = 500;

/**
 * Rotations and uses on their way to the records: noted in memory while a request is answered, written in batches off
 * its path. Only the newest state of a session matters, so that what waits grows with the sessions in use and not with
 * their refreshes. What a killed replica had noted is lost with it, and no more than that: a client's newer token moves
 * the state on again (rotation.ts), and only reuse detection is blind for it.
 */
export function makeWriteBehind({ writer, states, revocations, clock }: WriteBehindPorts) {
  const rotations = new Map<number, { key: TokenKey; state: SessionState }>();
  const uses = new Map<number, number>();
  let flushing: Promise<void> | null = null;
  /** Since when the oldest of what is noted waits, and of what is being written; by Clock.monotonic. */
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
    const noted = takeAll(rotations);
    try {
      while (noted.length > 0) {
        const batch = noted.slice(0, BATCH).map(([, { key, state }]) => ({ ...key, state }));
        // Rotated here and revoked or purged there: the record wins.
        const over = await writer.saveStates(batch);
        await states.revokeAll(over);
        await revocations.settle(over.map(({ tokenId }) => tokenId));
        noted.splice(0, BATCH);
      }
    } finally {
      for (const [, { key, state }] of noted) note(key, state);
    }
  }

  async function writeUses(): Promise<void> {
    const noted = takeAll(uses);
    try {
      while (noted.length > 0) {
        await writer.saveUses(noted.slice(0, BATCH).map(([tokenId, at]) => ({ tokenId, at })));
        noted.splice(0, BATCH);
      }
    } finally {
      for (const [tokenId, at] of noted) noteUse(tokenId, at);
    }
  }

  async function writeAll(): Promise<void> {
    writingSince = since;
    since = null;
    try {
      await writeRotations();
      await writeUses();
      // What came meanwhile may have been written along.
      if (rotations.size + uses.size === 0) since = null;
    } catch (error) {
      since = writingSince;
      throw error;
    } finally {
      writingSince = null;
    }
  }

  return {
    note,
    noteUse,
    /** Writes all that is noted; one at a time. @throws AuthError `unavailable`, and then nothing noted is lost. */
    flush(): Promise<void> {
      flushing ??= writeAll().finally(() => {
        flushing = null;
      });
      return flushing;
    },
    /** How many records wait. */
    size: () => rotations.size + uses.size,
    /** How long the oldest of them waits, in milliseconds; 0 where none does. */
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

/** In the order of their ids, in which all replicas take their locks. */
function takeAll<Value>(map: Map<number, Value>): [number, Value][] {
  const entries = [...map].sort(([a], [b]) => a - b);
  map.clear();
  return entries;
}
