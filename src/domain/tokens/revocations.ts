import type { TokenKey } from '../principal.ts';
import type { Clock } from '../clock.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { TokenStateStore } from './token-state-store.ts';
import { RECENT } from './lease.ts';
import type { ChangedUser, ChangedUsers, RevocationStore, SettledPage } from './ports.ts';

interface RevocationPorts {
  revocations: RevocationStore;
  /** Without publishing: this module publishes, by time. */
  tokenStates: Pick<TokenStateStore, 'revokeAll' | 'putUsers'>;
  feed: Pick<RevocationFeed, 'publish' | 'publishUser' | 'publishChanges'>;
  users: ChangedUsers;
  clock: Clock;
}

/** Tombstones read and set per batch. */
const PAGE = 1000;
/** From this many tokens of one user on, one event for all of them is considered. */
const MANY = 3;

/**
 * Finishes revocations, and restores what a new connection or a changed user needs. Every replica does all of this work:
 * setting a tombstone twice is harmless, and no single replica is needed. Renewals (renewals.ts) have one.
 */
export function makeRevocations({ revocations, tokenStates, feed, users, clock }: RevocationPorts) {
  let found = 0;
  let renewed = clock.monotonic();

  async function renew(ms: number): Promise<void> {
    let from: { ago: number } | { at: number; id: number } | null = { ago: ms };
    while (from) {
      const { keys, last }: SettledPage = await revocations.settledSince(from, PAGE);
      await tokenStates.revokeAll(keys);
      const end = keys[PAGE - 1];
      from = end ? { at: last, id: end.tokenId } : null;
    }
  }

  /** Sets the users again that changed in this time: the fast store may have lost the change, or never got it. */
  async function renewUsers(
    ms: number,
    also?: (changes: readonly ChangedUser[]) => Promise<void>,
  ): Promise<void> {
    for (let after: number | undefined = 0; after !== undefined;) {
      const page = await users.changedSince(ms, PAGE, after);
      const changed = page.map(({ user }) => user);
      await tokenStates.putUsers(changed);
      await also?.(page);
      await users.settleChanges(changed);
      // Stryker disable next-line OptionalChaining: a full page has a last user
      after = page.length === PAGE ? changed.at(-1)?.id : undefined;
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
     * Sets the tombstones and changed users of the last `ms` milliseconds again. The feed does not need them: if it may
     * have lost events, it begins a new epoch.
     */
    async renew(ms: number): Promise<void> {
      await renew(ms);
      await renewUsers(ms);
    },

    /**
     * Sets the changed users of the last minute again, and of the time since this last worked, in which a store may have
     * been down. The feed gets the events that it lacks: a failover may have lost them.
     */
    async renewRecentUsers(): Promise<void> {
      const now = clock.monotonic();
      await renewUsers(RECENT + now - renewed, (changes) => feed.publishChanges(changes));
      renewed = now;
    },

    /** Until when all changed users were renewed, by the monotonic clock. */
    renewedUntil: () => renewed,
  };
}

export type Revocations = ReturnType<typeof makeRevocations>;

function usersOfMany(keys: readonly TokenKey[]): number[] {
  const counts = new Map<number, number>();
  for (const { userId } of keys) counts.set(userId, (counts.get(userId) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= MANY).map(([userId]) => userId);
}
