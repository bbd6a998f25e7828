import { CLOCK_TOLERANCE } from '../clock.ts';
import type { RevocationFeed } from './ports.ts';

/**
 * Readers keep revocations for as long as their snapshot said. If ACCESS_TOKEN_TTL changes, their positions are of
 * another epoch, so that they get a new one.
 * @param remember what snapshots say, in seconds.
 */
export function withEpochsFor(
  remember: number,
  feed: Pick<RevocationFeed, 'read' | 'fence' | 'end'>,
): Pick<RevocationFeed, 'read' | 'fence' | 'end'> {
  const epochFor = <Position extends { epoch: string }>(position: Position): Position => ({
    ...position,
    epoch: `${position.epoch}-${remember}`,
  });
  return {
    read: async (after, limit) => epochFor(await feed.read(after, limit)),
    async fence(signal) {
      const end = await feed.fence(signal);
      return end && epochFor(end);
    },
    end: async () => epochFor(await feed.end()),
  };
}

/** How long readers remember, in seconds. @param accessTokenTtl ACCESS_TOKEN_TTL. */
export function rememberFor(accessTokenTtl: number): number {
  return accessTokenTtl + CLOCK_TOLERANCE;
}
