import type { Clock } from '../clock.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { SessionStateStore, TokenKey } from '../sessions/ports.ts';
import type { RevocationStore, Settled } from './ports.ts';

interface RevocationPorts {
  revocations: RevocationStore;
  /** Without publishing: that is done here, by time. */
  states: Pick<SessionStateStore, 'revokeAll'>;
  feed: Pick<RevocationFeed, 'publish' | 'publishUser' | 'renewed'>;
  clock: Clock;
}

/** Read and set at once. */
const PAGE = 1000;
/** A failover may have lost the tombstones of the last so many milliseconds unseen. */
const RECENT = 60_000;
/** From so many tokens of one user on it is asked whether an event for all of them will do. */
const MANY = 3;

/**
 * What keeps tombstones standing whatever the fast store forgets, and the feed whole. Every replica does all of it:
 * setting a tombstone twice is harmless, and no replica is needed.
 */
export function makeRevocations({ revocations, states, feed, clock }: RevocationPorts) {
  let found = 0;
  let renewed = clock.monotonic();

  async function renew(ms: number, also?: (keys: readonly TokenKey[]) => Promise<void>): Promise<void> {
    let from: { ago: number } | { at: number; id: number } | null = { ago: ms };
    while (from) {
      const page = await revocations.settledSince(from, PAGE);
      const keys = page.map(({ key }) => key);
      await states.revokeAll(keys);
      await also?.(keys);
      const last: Settled | undefined = page.length === PAGE ? page.at(-1) : undefined;
      from = last ? { at: last.at, id: last.key.tokenId } : null;
    }
  }

  async function publish(keys: readonly TokenKey[]): Promise<void> {
    for (const mark of await revocations.marksOf(usersOfMany(keys))) {
      await feed.publishUser(
        mark,
        keys.filter(({ userId, tokenId }) => userId === mark.userId && tokenId <= mark.before),
      );
    }
    await feed.publish(keys);
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
        await publish(page);
        await revocations.settle(page.map(({ tokenId }) => tokenId));
      } while (page.length === PAGE);
    },

    /** How many were pending when last looked at; PAGE for that many or more. */
    pending: () => found,

    /**
     * Sets the tombstones of the last so many milliseconds again. The feed needs none of them: where it may have lost
     * some it begins anew.
     */
    renew: (ms: number) => renew(ms),

    /**
     * Those of the last minute, and of the time since that was last done: a store may have been away. The feed gets those
     * that it does not have: its stream may have lost the last ones in a failover, or they went to a master that is none.
     */
    async renewRecent(): Promise<void> {
      const now = clock.monotonic();
      const back = RECENT + now - renewed;
      await renew(back, (keys) => feed.publish(keys));
      const took = clock.monotonic() - now;
      await feed.renewed(back + took, took);
      renewed = now;
    },
  };
}

export type Revocations = ReturnType<typeof makeRevocations>;

function usersOfMany(keys: readonly TokenKey[]): number[] {
  const counts = new Map<number, number>();
  for (const { userId } of keys) counts.set(userId, (counts.get(userId) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= MANY).map(([userId]) => userId);
}
