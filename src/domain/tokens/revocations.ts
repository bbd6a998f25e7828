import type { TokenKey } from '../principal.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { TokenStateStore } from './token-state-store.ts';
import type { RevocationStore, SettledPage } from './ports.ts';

interface RevocationPorts {
  revocations: RevocationStore;
  /** Without publishing: this module publishes, by time. */
  tokenStates: Pick<TokenStateStore, 'revokeAll'>;
  feed: Pick<RevocationFeed, 'publish' | 'publishUser'>;
}

/** Tombstones read and set per batch. */
const PAGE = 1000;
/** From this many tokens of one user on, one event for all of them is considered. */
const MANY = 3;

/**
 * The keys of tokens whose end was settled in the last `ago` milliseconds, oldest first, a page at a time. A page that is
 * full may not be the last.
 */
export async function* settledPages(
  revocations: Pick<RevocationStore, 'settledSince'>,
  ago: number,
): AsyncGenerator<{ keys: readonly TokenKey[]; isFull: boolean }> {
  let from: Parameters<RevocationStore['settledSince']>[0] | null = { ago };
  while (from) {
    const { keys, last }: SettledPage = await revocations.settledSince(from, PAGE);
    const end = keys[PAGE - 1];
    yield { keys, isFull: end !== undefined };
    from = end ? { at: last, id: end.tokenId } : null;
  }
}

/**
 * Finishes revocations, and restores what a new connection needs. Every replica does all of this work: setting a tombstone
 * twice is harmless, and no single replica is needed. Renewals (renewals.ts) have one for each master.
 */
export function makeRevocations({ revocations, tokenStates, feed }: RevocationPorts) {
  let found = 0;

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
    async renew(ms: number): Promise<void> {
      for await (const { keys } of settledPages(revocations, ms)) await tokenStates.revokeAll(keys);
    },
  };
}

export type Revocations = ReturnType<typeof makeRevocations>;

function usersOfMany(keys: readonly TokenKey[]): number[] {
  const counts = new Map<number, number>();
  for (const { userId } of keys) counts.set(userId, (counts.get(userId) ?? 0) + 1);
  return [...counts].filter(([, count]) => count >= MANY).map(([userId]) => userId);
}
