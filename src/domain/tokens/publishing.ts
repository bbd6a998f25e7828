import type { TokenStateStore } from './token-state-store.ts';
import type { RevocationFeed } from '../feed/ports.ts';

/**
 * Wraps a store so that it publishes every tombstone after setting it: code that ends a token cannot forget the feed. A
 * revocation is settled only after that (see revoke.ts), so a sweep finds those that were not published.
 */
export function withPublishing(
  tokenStates: TokenStateStore,
  feed: Pick<RevocationFeed, 'publish' | 'publishUnrecorded'>,
): TokenStateStore {
  return {
    ...tokenStates,
    // Publish last: a token issued after its end was published could outlive a reader's memory of that end.
    async revoke(key) {
      await tokenStates.revoke(key);
      await feed.publish([key]);
    },
    async revokeAll(keys, tombstone) {
      await tokenStates.revokeAll(keys, tombstone);
      await (tombstone === 'reused' ? feed.publishUnrecorded(keys) : feed.publish(keys));
    },
  };
}
