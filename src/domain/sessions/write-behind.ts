import type { StateWriter } from '../tokens/ports.ts';
import type { SessionStateStore, TokenKey } from './ports.ts';
import type { SessionState } from './rotation.ts';

interface WriteBehindPorts {
  writer: StateWriter;
  states: Pick<SessionStateStore, 'revoke'>;
}

/** Rows of one statement: large enough to keep up, small enough not to hold many rows for long. */
const BATCH = 500;

/**
 * Rotations and uses on their way to the records: noted in memory while a request is answered, written in batches off
 * its path. Only the newest state of a session matters, so that what waits grows with the sessions in use and not with
 * their refreshes. What a killed replica had noted is lost with it, and no more than that: a client's newer token moves
 * the state on again (rotation.ts), and only reuse detection is blind for it.
 */
export function makeWriteBehind({ writer, states }: WriteBehindPorts) {
  const rotations = new Map<number, { key: TokenKey; state: SessionState }>();
  const uses = new Map<number, number>();
  let flushing: Promise<void> | null = null;

  function note(key: TokenKey, state: SessionState): void {
    const noted = rotations.get(key.tokenId)?.state;
    if (noted && !isNewer(state, noted)) return;
    rotations.set(key.tokenId, { key, state });
  }

  /** @param at milliseconds since 1970. */
  function noteUse(tokenId: number, at: number): void {
    if (at > (uses.get(tokenId) ?? 0)) uses.set(tokenId, at);
  }

  async function writeRotations(): Promise<void> {
    while (rotations.size > 0) {
      const batch = takeLowest(rotations, BATCH);
      let over: TokenKey[];
      try {
        over = await writer.saveStates(batch.map(([, { key, state }]) => ({ ...key, state })));
      } catch (error) {
        for (const [, { key, state }] of batch) note(key, state);
        throw error;
      }
      // Rotated here and revoked there: the record wins.
      for (const key of over) await states.revoke(key);
    }
  }

  async function writeUses(): Promise<void> {
    while (uses.size > 0) {
      const batch = takeLowest(uses, BATCH);
      try {
        await writer.saveUses(batch.map(([tokenId, at]) => ({ tokenId, at })));
      } catch (error) {
        for (const [tokenId, at] of batch) noteUse(tokenId, at);
        throw error;
      }
    }
  }

  return {
    note,
    noteUse,
    /** Writes all that is noted; one at a time. @throws AuthError `unavailable`, and then nothing noted is lost. */
    flush(): Promise<void> {
      flushing ??= writeRotations()
        .then(writeUses)
        .finally(() => {
          flushing = null;
        });
      return flushing;
    },
    /** How many records wait. */
    size: () => rotations.size + uses.size,
  };
}

export type WriteBehind = ReturnType<typeof makeWriteBehind>;

function isNewer(state: SessionState, than: SessionState): boolean {
  return state.latest > than.latest || (state.latest === than.latest && state.confirmed);
}

/** In the order of their ids, in which all replicas take their locks. */
function takeLowest<Value>(map: Map<number, Value>, count: number): [number, Value][] {
  const batch = [...map].sort(([a], [b]) => a - b).slice(0, count);
  for (const [id] of batch) map.delete(id);
  return batch;
}
