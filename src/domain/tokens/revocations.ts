import type { TokenKey } from '../principal.ts';
import type { Clock } from '../clock.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { TokenStateStore } from './token-state-store.ts';
import type { RevocationStore, SettledPage } from './ports.ts';
import { RECENT, type RenewChanges } from './renew-changes.ts';

interface RevocationPorts {
  revocations: RevocationStore;
  /** Without publishing: this module publishes, by time. */
  tokenStates: Pick<TokenStateStore, 'revokeAll'>;
  feed: Pick<RevocationFeed, 'publish' | 'publishUser' | 'renewed'>;
  /** The feed's other half. */
  changes: Pick<RenewChanges, 'renewedUntil'>;
  clock: Clock;
}

/** Tombstones read and set per batch. */
const PAGE = 1000;
/** From this many tokens of one user on, one event for all of them is considered. */
const MANY = 3;

/**
 * Restores tombstones that the fast store lost, and keeps the feed complete. Every replica does all of this work:
 * setting a tombstone twice is harmless, and no single replica is needed.
 */
export function makeRevocations({ revocations, tokenStates, feed, changes, clock }: RevocationPorts) {
  let found = 0;
  let renewed = clock.monotonic();
  let reported = renewed;

  async function renew(ms: number, also?: (keys: readonly TokenKey[]) => Promise<void>): Promise<void> {
    let from: { ago: number } | { at: number; id: number } | null = { ago: ms };
    while (from) {
      const { keys, last }: SettledPage = await revocations.settledSince(from, PAGE);
      await tokenStates.revokeAll(keys);
      await also?.(keys);
      const end = keys[PAGE - 1];
      from = end ? { at: last, id: end.tokenId } : null;
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
     * Finishes revocations whose tombstone is not confirmed: between the record and the tombstone, their replica was
     * killed or the fast store was down.
     */
    async sweep(): Promise<void> {
      let page: TokenKey[];
      let after = 0;
      do {
        page = await revocations.pending(PAGE, undefined, after);
        found = page.length;
        await tokenStates.revokeAll(page);
        await publish(page);
        await revocations.settle(page.map(({ tokenId }) => tokenId));
        after = page.at(-1)?.tokenId ?? after;
      } while (page.length === PAGE);
    },

    /** How many revocations were pending at the last sweep; PAGE means that many or more. */
    pending: () => found,

    /**
     * Sets the tombstones of the last `ms` milliseconds again. The feed does not need them: if it may have lost events,
     * it begins a new epoch.
     */
    renew: (ms: number) => renew(ms),

    /**
     * Renews the tombstones of the last minute and of the time since the last renewal, in which a store may have been
     * down. The feed gets the events that it lacks: a failover may have lost them, or they went to a demoted master.
     */
    async renewRecent(): Promise<void> {
      const now = clock.monotonic();
      await renew(RECENT + now - renewed, (keys) => feed.publish(keys));
      renewed = now;
      // The feed is as complete as the later of its halves.
      const until = Math.min(renewed, changes.renewedUntil());
      if (until <= reported) return;
      const done = clock.monotonic();
      await feed.renewed(RECENT + done - reported, done - until);
      reported = until;
    },
  };
}

export type Revocations = ReturnType<typeof makeRevocations>;

function usersOfMany(keys: readonly TokenKey[]): number[] {
  const counts = new Map<number, number>();
  for (const { userId } of keys) counts.set(userId, (counts.get(userId) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= MANY).map(([userId]) => userId);
}
