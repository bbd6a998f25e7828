import { randomUUID } from 'node:crypto';
import type { FeedEvent, RevocationFeed } from '../../src/domain/feed/ports.ts';
import { makeMemoryRevocationFeed } from '../../src/infra/memory/revocation-feed.ts';
import { UNOBSERVED } from './unobserved.ts';

/** A new feed in memory. */
export function aFeed(now = () => performance.now()): RevocationFeed {
  return makeMemoryRevocationFeed({ newEpoch: randomUUID, now, observe: UNOBSERVED });
}

/** All kept events, without their numbers. */
export async function published(feed: Pick<RevocationFeed, 'read'>): Promise<string[]> {
  const { events } = await feed.read(0, 1_000_000);
  return (events ?? []).map(eventText);
}

/**
 * `7/11` for token 11 of user 7, `7<=90` for all tokens of user 7 up to 90, `changed 7@3` for version 3 of user 7.
 */
export function eventText(event: FeedEvent): string {
  if (event.type === 'revoked') return `${event.userId}/${event.tokenId}`;
  if (event.type === 'user_revoked') return `${event.userId}<=${event.before}`;
  return `${event.type.replace('user_', '')} ${event.userId}@${event.version}`;
}
