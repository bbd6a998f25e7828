import type { FastifyBaseLogger } from 'fastify';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import type { ServiceVersions } from '../domain/services/directory.ts';
import type { ServiceIdentity } from '../domain/services/registered-service.ts';
import type { Clock } from '../domain/clock.ts';
import { makeCatchUp } from '../domain/feed/catch-up.ts';
import { rememberFor, withEpochsFor } from '../domain/feed/epochs.ts';
import { makeFanOut } from '../domain/feed/fan-out.ts';
import type { FeedPosition, RevocationFeed } from '../domain/feed/ports.ts';
import type { Observe } from '../telemetry/observe.ts';
import { pause } from '../infra/pause.ts';
import { makeFeedRecord } from '../infra/postgres/feed-record.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

interface FeedParts {
  feed: RevocationFeed;
  prisma: PrismaClient;
  /** ACCESS_TOKEN_TTL in seconds. */
  accessTokenTtl: number;
  /** REVOCATION_READERS_MAX. */
  maxReaders: number;
  maxReadersPerService: number;
  isAdmitted: (service: ServiceIdentity) => boolean;
  serviceVersions: () => ServiceVersions;
  onRead: (position: FeedPosition) => void;
  clock: Clock;
  observe: Observe;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Interval between reads of the stream, in milliseconds. */
export const POLL = 200;

/** The revocation feed: catch-up for new readers, and fan-out to all readers. */
export function makeFeed({ prisma, clock, observe, tasks, logger, ...parts }: FeedParts) {
  const remember = rememberFor(parts.accessTokenTtl);
  const feed = withEpochsFor(remember, parts.feed);
  const catchUp = makeCatchUp({ feed, record: makeFeedRecord(prisma), remember, observe });
  const fanOut = makeFanOut({
    feed,
    catchUp,
    maxReaders: parts.maxReaders,
    maxReadersPerService: parts.maxReadersPerService,
    isAdmitted: parts.isAdmitted,
    serviceVersions: parts.serviceVersions,
    onRead: parts.onRead,
    clock,
    wait: pause,
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
  return { fanOut, feed };
}

/** How many readers one service may have on a replica. */
export function readersPerService(config: {
  REVOCATION_READERS_MAX: number;
  REVOCATION_READERS_PER_CLIENT?: number | undefined;
}): number {
  return config.REVOCATION_READERS_PER_CLIENT ?? Math.max(1, Math.floor(config.REVOCATION_READERS_MAX / 4));
}
