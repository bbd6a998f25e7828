import type { SessionStateStore } from '../sessions/ports.ts';
import type { RevocationFeed } from './ports.ts';

/**
 * The same store, of which every tombstone is published once it stands: whoever ends a token tells the feed's readers,
 * and cannot forget to. Since nothing is settled before (see revoke.ts), what was not published is found by a sweep.
 */
export function withPublishing(
  states: SessionStateStore,
  feed: Pick<RevocationFeed, 'publish' | 'publishUnrecorded'>,
): SessionStateStore {
  return {
    ...states,
    // In this order: no token is issued after its end was published, or a reader might forget too early.
    async revoke(key) {
      await states.revoke(key);
      await feed.publish([key]);
    },
    async revokeAll(keys, tombstone) {
      await states.revokeAll(keys, tombstone);
      await (tombstone === 'reused' ? feed.publishUnrecorded(keys) : feed.publish(keys));
    },
  };
}
