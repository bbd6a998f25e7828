import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import type { Config } from '../config/config.ts';
import type { Clock } from '../domain/clock.ts';
import { makeConfirm } from '../domain/enforcement/confirm.ts';
import { makeConnected, NOTE_INTERVAL } from '../domain/enforcement/connected.ts';
import { makeEnforcement } from '../domain/enforcement/enforcement.ts';
import { makeListReaders } from '../domain/enforcement/list-readers.ts';
import type { FeedReaderStore } from '../domain/enforcement/ports.ts';
import type { Progress } from '../domain/enforcement/progress.ts';
import { ignoreOutage } from '../domain/errors.ts';
import type { FanOut } from '../domain/feed/fan-out.ts';
import type { RevocationFeed } from '../domain/feed/ports.ts';
import type { BoundedQueues } from '../domain/limits/bounded.ts';
import { pause } from '../infra/pause.ts';
import { readersPerService } from './revocation-feed.ts';

interface EnforcementParts {
  config: Pick<Config, 'REVOCATION_READERS_MAX' | 'REVOCATION_READERS_PER_CLIENT' | 'DATABASE_TIMEOUT'>;
  store: FeedReaderStore;
  progress: Progress;
  fanOut: Pick<FanOut, 'connected'>;
  /** With the epochs that readers know. */
  feed: Pick<RevocationFeed, 'fence' | 'end'>;
  /** ACCESS_TOKEN_TTL in seconds. */
  accessTokenTtl: number;
  boundedQueue: BoundedQueues;
  clock: Clock;
  tasks: Pick<BackgroundTasks, 'every'>;
}

/** Milliseconds between two measurements of how long readers take. */
const MEASURE_INTERVAL = 1000;

/** Who has enforced a revocation: what readers confirm, who is connected, and the answers. */
export function makeEnforcementParts({
  config,
  store,
  progress,
  fanOut,
  feed,
  clock,
  ...parts
}: EnforcementParts) {
  const connected = makeConnected({ store, connected: fanOut.connected, feed, clock });
  parts.tasks.every(NOTE_INTERVAL, 'feed readers', connected.pass);
  // An outage has alerts of its own.
  parts.tasks.every(MEASURE_INTERVAL, null, () => progress.measure().catch(ignoreOutage));
  return {
    connected,
    confirmReaders: makeConfirm({
      store,
      clock,
      pause,
      boundedQueue: parts.boundedQueue,
      perService: readersPerService(config),
      patience: config.DATABASE_TIMEOUT,
      readers: connected.readers,
    }),
    listReaders: makeListReaders({ store, feed }),
    enforcement: makeEnforcement({
      store,
      feed,
      clock,
      sleep: pause,
      accessTokenTtl: parts.accessTokenTtl,
    }),
  };
}
