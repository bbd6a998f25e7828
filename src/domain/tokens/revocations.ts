import type { Clock } from '../clock.ts';
import type { SessionStateStore, TokenKey } from '../sessions/ports.ts';
import type { RevocationStore } from './ports.ts';

interface RevocationPorts {
  revocations: RevocationStore;
  states: Pick<SessionStateStore, 'revokeAll'>;
  clock: Clock;
}

/** Read and set at once. */
const PAGE = 1000;

/**
 * What keeps tombstones standing whatever the fast store forgets. Every replica does all of it: setting a tombstone
 * twice is harmless, and no replica is needed.
 */
export function makeRevocations({ revocations, states, clock }: RevocationPorts) {
  /** Sets the tombstone of everything revoked since then. @param since milliseconds since 1970. */
  async function replaySince(since: number): Promise<void> {
    let from: { at: number; id: number } | null = { at: since, id: 0 };
    while (from) {
      const page = await revocations.revokedSince(from, PAGE);
      await states.revokeAll(page.map(({ key }) => key));
      const last = page.length === PAGE ? page.at(-1) : undefined;
      from = last ? { at: last.at, id: last.key.tokenId } : null;
    }
  }

  return {
    /**
     * Finishes the revocations whose tombstone is not known to stand: their replica was killed, or the fast store away,
     * between the record and the tombstone.
     */
    async sweep(): Promise<void> {
      let page: TokenKey[];
      do {
        page = await revocations.pending(PAGE);
        await states.revokeAll(page);
        await revocations.settle(page.map(({ tokenId }) => tokenId));
      } while (page.length === PAGE);
    },

    /** Sets the tombstones of the last so many milliseconds again: a failover may have lost them unseen. */
    renew: (ms: number) => replaySince(clock.now() - ms),
  };
}

export type Revocations = ReturnType<typeof makeRevocations>;
