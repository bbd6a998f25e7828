import type { FastifyBaseLogger } from 'fastify';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import type { ServiceVersions } from '../domain/services/directory.ts';
import type { ServiceIdentity } from '../domain/services/registered-service.ts';
import { CLOCK_TOLERANCE, type Clock } from '../domain/clock.ts';
import { makeCatchUp } from '../domain/feed/catch-up.ts';
import { makeFanOut } from '../domain/feed/fan-out.ts';
import type { RevocationFeed } from '../domain/feed/ports.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeFeedRecord } from '../infra/postgres/feed-record.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

interface FeedParts {
  feed: RevocationFeed;
  prisma: PrismaClient;
  /** ACCESS_TOKEN_TTL in seconds. */
  accessTokenTtl: number;
  /** REVOCATION_READERS_MAX. */
  maxReaders: number;
  /** REVOCATION_READERS_PER_CLIENT; undefined for a quarter of `maxReaders`. */
  maxReadersPerService: number | undefined;
  isAdmitted: (service: ServiceIdentity) => boolean;
  serviceVersions: () => ServiceVersions;
  clock: Clock;
  observe: Observe;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Interval between reads of the stream, in milliseconds. */
export const POLL = 200;

/** The revocation feed: catch-up for new readers, and fan-out to all readers. */
export function makeFeed({ prisma, clock, observe, tasks, logger, ...parts }: FeedParts) {
  const remember = parts.accessTokenTtl + CLOCK_TOLERANCE;
  const feed = withEpochsFor(remember, parts.feed);
  const catchUp = makeCatchUp({ feed, record: makeFeedRecord(prisma), remember, observe });
  const fanOut = makeFanOut({
    feed,
    catchUp,
    maxReaders: parts.maxReaders,
    maxReadersPerService: parts.maxReadersPerService ?? Math.max(1, Math.floor(parts.maxReaders / 4)),
    isAdmitted: parts.isAdmitted,
    serviceVersions: parts.serviceVersions,
    clock,
    wait: (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref()),
    observe,
    onError: (error) => {
      logger.error({ err: error }, 'a reader of the feed was cut off');
    },
  });
  tasks.every(
    POLL,
    'revocation feed',
    () => {
      fanOut.disconnectInvalidServices();
      return fanOut.poll();
    },
    () => {
      fanOut.disconnectAll();
    },
  );
  return fanOut;
}

/**
 * Readers keep revocations for as long as their snapshot said. If ACCESS_TOKEN_TTL changes, their positions are of
 * another epoch, so that they get a new one.
 */
function withEpochsFor(remember: number, feed: RevocationFeed): Pick<RevocationFeed, 'read'> {
  return {
    async read(after, limit) {
      const page = await feed.read(after, limit);
      return { ...page, epoch: `${page.epoch}-${remember}` };
    },
  };
}
