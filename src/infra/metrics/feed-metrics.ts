import type { Observe } from '../../domain/metrics/observe.ts';
import { FEED_ENDS, FEED_SNAPSHOT_REASONS } from '../../domain/metrics/outcomes.ts';
import type { Registry } from './registry.ts';
import { seriesOf } from './series.ts';

/** The feed of revocations. */
export function makeFeedMetrics(registry: Registry) {
  const published = registry
    .counters('latchkey_feed_published_total', 'Events that this replica added to the feed of revocations')
    .with({});
  const snapshots = seriesOf(
    registry.counters('latchkey_feed_snapshots_total', 'Snapshots that readers of the feed were sent'),
    'reason',
    FEED_SNAPSHOT_REASONS,
  );
  const ends = seriesOf(
    registry.counters('latchkey_feed_ends_total', 'Connections of readers of the feed that ended'),
    'reason',
    FEED_ENDS,
  );

  return {
    feedPublished: (count) => {
      published.inc(count);
    },
    feedSnapshot: (reason) => {
      snapshots[reason].inc();
    },
    feedEnded: (reason) => {
      ends[reason].inc();
    },
  } satisfies Partial<Observe>;
}

/** What is looked at when somebody scrapes. `lag` in milliseconds. */
export interface FeedSource {
  readers: () => number;
  lag: () => number;
}

export function addFeedGauges(registry: Registry, { readers, lag }: FeedSource): void {
  registry.read('gauge', 'latchkey_feed_readers', 'Readers of the feed of revocations', readers);
  registry.read(
    'gauge',
    'latchkey_feed_lag_seconds',
    'For how long readers of the feed may have missed something',
    () => lag() / 1000,
  );
}
