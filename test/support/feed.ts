import { randomUUID } from 'node:crypto';
import type { FeedEvent, RevocationFeed } from '../../src/domain/feed/ports.ts';
import { makeMemoryRevocationFeed } from '../../src/infra/memory/revocation-feed.ts';

/** A feed of the test's own, in memory. */
export function aFeed(now = () => performance.now()): RevocationFeed {
  return makeMemoryRevocationFeed({ newEpoch: randomUUID, now });
}

/** Everything on it that is kept, without the numbers. */
export async function published(feed: Pick<RevocationFeed, 'read'>): Promise<string[]> {
  const { events } = await feed.read(0, 1_000_000);
  return (events ?? []).map(eventText);
}

/** `7/11` for a token of a user, `7<=90` for all up to one. */
export function eventText(event: FeedEvent): string {
  return event.type === 'revoked' ? `${event.userId}/${event.tokenId}` : `${event.userId}<=${event.before}`;
}
