import type { FastifyBaseLogger } from 'fastify';
import { makeBackground } from './background.ts';
import { CLOCK_TOLERANCE } from './domain/access-tokens/claims.ts';
import type { ServiceIdentity } from './domain/clients/service-client.ts';
import type { Clock } from './domain/clock.ts';
import { makeCatchUp } from './domain/feed/catch-up.ts';
import { makeFanOut } from './domain/feed/fan-out.ts';
import type { RevocationFeed } from './domain/feed/ports.ts';
import type { Observe } from './domain/metrics/observe.ts';
import { makeRevokedTokens } from './infra/postgres/revoked-tokens.ts';
import type { PrismaClient } from './generated/prisma/client.ts';

interface FeedParts {
  feed: RevocationFeed;
  prisma: PrismaClient;
  /** ACCESS_TOKEN_TTL in seconds. */
  accessTokenTtl: number;
  /** REVOCATION_READERS_MAX. */
  maxReaders: number;
  isClient: (client: ServiceIdentity) => boolean;
  clock: Clock;
  observe: Observe;
  logger: FastifyBaseLogger;
}

/** Between two looks at the stream, in milliseconds. */
export const POLL = 200;

/** The readers of the feed of revocations, and what passes it on to them. */
export function makeFeed({ feed, prisma, clock, observe, logger, ...parts }: FeedParts) {
  const catchUp = makeCatchUp({
    feed,
    revoked: makeRevokedTokens(prisma),
    remember: parts.accessTokenTtl + CLOCK_TOLERANCE,
    observe,
  });
  const fanOut = makeFanOut({
    feed,
    catchUp,
    maxReaders: parts.maxReaders,
    isClient: parts.isClient,
    clock,
    wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref()),
    observe,
    onError: (error) => {
      logger.error({ err: error }, 'a reader of the feed was cut off');
    },
  });
  const background = makeBackground(logger, observe);
  return {
    fanOut,
    start(): void {
      background.every(POLL, 'revocation feed', () => {
        fanOut.endStrangers();
        return fanOut.poll();
      });
    },
    async stop(): Promise<void> {
      fanOut.close();
      await background.stop();
    },
  };
}
