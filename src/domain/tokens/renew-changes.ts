import type { Clock } from '../clock.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import { RECENT } from './lease.ts';
import type { ChangedUser, ChangedUsers, ChangePage } from './ports.ts';
import type { TokenStateStore } from './token-state-store.ts';

interface RenewChangesPorts {
  users: ChangedUsers;
  tokenStates: Pick<TokenStateStore, 'putUsers'>;
  feed: Pick<RevocationFeed, 'publishChanges'>;
  clock: Pick<Clock, 'monotonic'>;
}

type Also = (changes: readonly ChangedUser[]) => Promise<void>;

/** Users read and set per batch. */
const PAGE = 1000;

/**
 * Sets changed users again that the fast store lost or never got, and keeps the feed complete. It is apart from the
 * tombstones (renewals.ts), which must not wait for a hundred thousand users. Every replica does this work: setting a
 * user twice is harmless.
 */
export function makeRenewChanges({ users, tokenStates, feed, clock }: RenewChangesPorts) {
  const start = clock.monotonic();
  let renewed = -Infinity;

  async function renewPage(changes: readonly ChangedUser[], also?: Also): Promise<void> {
    await tokenStates.putUsers(changes.map(({ user }) => user));
    await also?.(changes);
    await users.settleChanges(changes.filter(({ isPending }) => isPending).map(({ user }) => user));
  }

  async function renew(ms: number, also?: Also): Promise<void> {
    let page: ChangePage | null = await users.changedSince(ms, PAGE);
    while (page) {
      const { changes, next }: ChangePage = page;
      // The record is read while the fast store is written, which halves the time.
      [page] = await Promise.all([next && users.changedSince(ms, PAGE, next), renewPage(changes, also)]);
    }
    // A commit that came long after its change is in no page by time.
    for (let after: number | undefined = 0; after !== undefined;) {
      const changes = await users.pendingChanges(PAGE, after);
      await renewPage(changes, also);
      after = changes[PAGE - 1]?.user.id;
    }
  }

  return {
    /**
     * Sets the users again that changed in the last `ms` milliseconds. The feed does not need them: if it may have lost
     * events, it begins a new epoch.
     */
    renew: (ms: number) => renew(ms),

    /**
     * Renews the users that changed in the last minute and since the last renewal, in which a store may have been down,
     * and publishes the events that the feed lacks.
     */
    async renewRecent(): Promise<void> {
      const now = clock.monotonic();
      await renew(RECENT + now - Math.max(start, renewed), (changes) => feed.publishChanges(changes));
      renewed = now;
    },

    /** Until when all changes were renewed, by the monotonic clock; -Infinity before the first renewal. */
    renewedUntil: () => renewed,
  };
}

export type RenewChanges = ReturnType<typeof makeRenewChanges>;
