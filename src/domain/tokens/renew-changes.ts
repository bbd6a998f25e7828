import type { Clock } from '../clock.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import { LATE, OVERLAP, RECENT, type FullRenewal } from './lease.ts';
import type { ChangedUser, ChangedUsers, ChangePage, RenewalLeases } from './ports.ts';
import type { TokenStateStore } from './token-state-store.ts';

interface RenewChangesPorts {
  users: ChangedUsers;
  /** Without publishing. */
  tokenStates: Pick<TokenStateStore, 'putUsers'>;
  feed: Pick<RevocationFeed, 'publishChanges'>;
  leases: Pick<RenewalLeases, 'isThere' | 'hasFeed'>;
  clock: Pick<Clock, 'monotonic'>;
}

/**
 * What has been renewed on a master whose lease this replica holds. Times in milliseconds by its monotonic
 * clock.
 */
interface Progress {
  /** Everything has been renewed between these two. */
  readonly since: number;
  readonly until: number;
  /** The full renewal of tombstones that the last full one of users followed; null if a full one is due. */
  readonly followed: FullRenewal | null;
}

/** Users read and set per batch. */
const PAGE = 1000;

/**
 * Sets changed users again that the fast store lost or never got, and keeps the feed complete. It is apart
 * from the tombstones (renewals.ts), which must not wait for a hundred thousand users. But whoever holds the
 * lease of a master renews both there, and each full renewal of tombstones is followed by one of users.
 */
export function makeRenewChanges({ users, tokenStates, feed, leases, clock }: RenewChangesPorts) {
  let progress = new Map<string, Progress>();

  async function eachPage(
    ms: number,
    use: (changes: readonly ChangedUser[]) => Promise<void>,
  ): Promise<void> {
    let page: ChangePage | null = await users.changedSince(ms, PAGE);
    while (page) {
      const { changes, next }: ChangePage = page;
      // The record is read while the fast store is written, which halves the time.
      [page] = await Promise.all([next && users.changedSince(ms, PAGE, next), use(changes)]);
    }
  }

  /** Finishes changes of any age: a commit that came long after its change is in no page by time. */
  async function finishPending(publish: (changes: readonly ChangedUser[]) => Promise<void>): Promise<void> {
    for (let after: number | undefined = 0; after !== undefined;) {
      const changes = await users.pendingChanges(PAGE, after);
      const changed = changes.map(({ user }) => user);
      await tokenStates.putUsers(changed);
      await publish(changes);
      await users.settleChanges(changed);
      after = changes[PAGE - 1]?.user.id;
    }
  }

  const publish = (changes: readonly ChangedUser[]) => feed.publishChanges(changes);

  return {
    /**
     * Sets the users again that changed in the last `ms` milliseconds, or whose change is pending. The feed
     * needs only the pending ones: if it may have lost others, it begins a new epoch.
     */
    async renew(ms: number): Promise<void> {
      await eachPage(ms, (changes) => tokenStates.putUsers(changes.map(({ user }) => user)));
      await finishPending(publish);
    },

    /**
     * Finishes the changes that another replica, a command or SQL has left pending. Every replica does that.
     */
    sweep: () => finishPending(publish),

    /**
     * Renews what a failover may have lost on the masters whose leases this replica holds, and publishes the
     * events that the feed lacks.
     * @param held these masters, each with the last full renewal of tombstones there.
     */
    async renewHeld(held: ReadonlyMap<string, FullRenewal>): Promise<void> {
      // What was renewed under an earlier lease says nothing of the time since.
      progress = new Map([...progress].filter(([master]) => held.has(master)));
      if (held.size === 0) return;
      const startedAt = clock.monotonic();
      const plans = [...held].map(([master, full]) => {
        const first = { since: full.since, until: full.since + RECENT, followed: null };
        const before: Progress = progress.get(master) ?? first;
        progress.set(master, before);
        const isFull = before.followed !== full;
        // Those of tombstones reach back to the last of tombstones only. If users failed or took long since
        // then, they have more to make up for.
        const since = isFull ? Math.min(full.since, before.until - RECENT) : before.until - OVERLAP;
        return { master, full, before, isFull, since };
      });
      const isHere = ({ user }: ChangedUser) => plans.some(({ master }) => leases.isThere(master, user.id));
      const hasFeed = plans.some(({ master }) => leases.hasFeed(master));
      let readAt = Infinity;
      // One read serves all masters, so it reaches as far back as the one that needs most.
      await eachPage(startedAt - Math.min(...plans.map(({ since }) => since)), async (changes) => {
        readAt = Math.min(readAt, clock.monotonic());
        await tokenStates.putUsers(changes.filter(isHere).map(({ user }) => user));
        if (hasFeed) await publish(changes);
      });
      const delay = readAt - startedAt;
      for (const { master, full, before, isFull, since } of plans) {
        const isContinued = before.followed?.server === full.server;
        // A short one that read late may have left a gap, so the next is full, which reaches back further.
        if (!isFull && delay > LATE) progress.set(master, { ...before, followed: null });
        else
          progress.set(master, {
            since: isContinued ? before.since : since + delay,
            until: startedAt,
            followed: full,
          });
      }
    },

    /**
     * Since when and until when all changes were renewed on this server of a master, by the monotonic clock;
     * null if unknown.
     */
    renewedOn(master: string, server: string): Pick<Progress, 'since' | 'until'> | null {
      const known = progress.get(master);
      return known?.followed?.server === server ? known : null;
    },
  };
}

export type RenewChanges = ReturnType<typeof makeRenewChanges>;
