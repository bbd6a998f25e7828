import type { Clock } from '../clock.ts';
import type { SessionStateStore, TokenKey } from '../sessions/ports.ts';
import type { RevocationStore, Settled } from './ports.ts';

interface RevocationPorts {
  revocations: RevocationStore;
  states: Pick<SessionStateStore, 'revokeAll'>;
  clock: Clock;
}

/** Read and set at once. */
const PAGE = 1000;
/** A failover may have lost the tombstones of the last so many milliseconds unseen. */
const RECENT = 60_000;

/**
 * What keeps tombstones standing whatever the fast store forgets. Every replica does all of it: setting a tombstone
 * twice is harmless, and no replica is needed.
 */
export function makeRevocations({ revocations, states, clock }: RevocationPorts) {
  let found = 0;
  let renewed = clock.monotonic();

  async function renew(ms: number): Promise<void> {
    let from: { ago: number } | { at: number; id: number } | null = { ago: ms };
    while (from) {
      const page = await revocations.settledSince(from, PAGE);
      await states.revokeAll(page.map(({ key }) => key));
      const last: Settled | undefined = page.length === PAGE ? page.at(-1) : undefined;
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
        found = page.length;
        await states.revokeAll(page);
        await revocations.settle(page.map(({ tokenId }) => tokenId));
      } while (page.length === PAGE);
    },

    /** How many were pending when last looked at; PAGE for that many or more. */
    pending: () => found,

    /** Sets the tombstones of the last so many milliseconds again. */
    renew,

    /** Those of the last minute, and of the time since that was last done: a store may have been away. */
    async renewRecent(): Promise<void> {
      const now = clock.monotonic();
      await renew(RECENT + now - renewed);
      renewed = now;
    },
  };
}

export type Revocations = ReturnType<typeof makeRevocations>;
