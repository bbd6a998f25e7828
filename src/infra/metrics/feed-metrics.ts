import type { Observe } from '../../telemetry/observe.ts';
import { FEED_ENDS, FEED_SNAPSHOT_REASONS } from '../../domain/metrics/outcomes.ts';
import { seriesOf, type Registry } from './registry.ts';

/** Metrics of the revocation feed. */
export function makeFeedMetrics(registry: Registry) {
  const published = registry
    .counters('latchkey_feed_published_total', 'Events that this replica added to the revocation feed')
    .with({});
  const snapshots = seriesOf(
    registry.counters('latchkey_feed_snapshots_total', 'Snapshots sent to readers of the feed'),
    'reason',
    FEED_SNAPSHOT_REASONS,
  );
  const ends = seriesOf(
    registry.counters('latchkey_feed_ends_total', 'Ended connections of readers of the feed'),
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

/** Read at each scrape. `lag` in milliseconds. */
export interface FeedSource {
  readers: () => number;
  lag: () => number;
}

export function addFeedGauges(registry: Registry, { readers, lag }: FeedSource): void {
  registry.read('gauge', 'latchkey_feed_readers', 'Connected readers of the revocation feed', readers);
  registry.read(
    'gauge',
    'latchkey_feed_lag_seconds',
    'How far readers of the feed may be behind',
    () => lag() / 1000,
  );
}
