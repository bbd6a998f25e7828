import type { Observe } from '../../domain/metrics/observe.ts';
import { HASH_REJECTIONS, TASKS, type Task } from '../../domain/metrics/outcomes.ts';
import { LATENCY } from './buckets.ts';
import type { Registry } from './registry.ts';
import { seriesOf } from './series.ts';

/** Hashing, and the work beside the requests. @param now milliseconds since 1970. */
export function makeWorkMetrics(registry: Registry, now: () => number) {
  const waits = registry
    .histograms('latchkey_hash_wait_seconds', 'How long hashes waited before they began', LATENCY)
    .with({});
  const hashes = registry
    .histograms('latchkey_hash_duration_seconds', 'How long hashes took, without the wait', LATENCY)
    .with({});
  const rejections = seriesOf(
    registry.counters('latchkey_hash_rejections_total', 'Hashes that were refused'),
    'reason',
    HASH_REJECTIONS,
  );
  const failures = seriesOf(
    registry.counters('latchkey_background_failures_total', 'Failed runs of the work beside the requests'),
    'task',
    TASKS,
  );
  const successes = new Map<Task, number>(TASKS.map((task) => [task, 0]));
  registry.read(
    'gauge',
    'latchkey_background_last_success_timestamp_seconds',
    'When the work beside the requests last succeeded',
    () => [...successes].map(([task, value]) => ({ labels: { task }, value })),
  );

  return {
    hashBegan: (waited) => {
      waits.observe(waited);
    },
    hashEnded: (seconds) => {
      hashes.observe(seconds);
    },
    hashRejected: (reason) => {
      rejections[reason].inc();
    },
    taskEnded: (task, succeeded) => {
      if (succeeded) successes.set(task, now() / 1000);
      else failures[task].inc();
    },
  } satisfies Partial<Observe>;
}
