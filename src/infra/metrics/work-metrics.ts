import type { Observe } from '../../telemetry/observe.ts';
import { HASH_REJECTIONS } from '../../domain/metrics/outcomes.ts';
import { TASKS, type Task } from '../../telemetry/outcomes.ts';
import { LATENCY } from './instruments.ts';
import { seriesOf, type Registry } from './registry.ts';

/** Metrics of hashing, of background tasks and of the audit trail. @param now milliseconds since 1970. */
export function makeWorkMetrics(registry: Registry, now: () => number) {
  const waits = registry
    .histograms('latchkey_hash_wait_seconds', 'How long hashes waited in the queue', LATENCY)
    .with({});
  const hashes = registry
    .histograms(
      'latchkey_hash_duration_seconds',
      'How long hashes took, without the wait in the queue',
      LATENCY,
    )
    .with({});
  const rejections = seriesOf(
    registry.counters('latchkey_hash_rejections_total', 'Hashes that were refused'),
    'reason',
    HASH_REJECTIONS,
  );
  const failures = seriesOf(
    registry.counters('latchkey_background_failures_total', 'Failed runs of background tasks'),
    'task',
    TASKS,
  );
  const auditLosses = registry
    .counters('latchkey_audit_write_failures_total', 'Events of the audit trail that could not be written')
    .with({});
  const successes = new Map<Task, number>(TASKS.map((task) => [task, 0]));
  registry.read(
    'gauge',
    'latchkey_background_last_success_timestamp_seconds',
    'When background tasks last succeeded',
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
    auditLost: (events) => {
      auditLosses.inc(events);
    },
    taskEnded: (task, succeeded) => {
      if (succeeded) successes.set(task, now() / 1000);
      else failures[task].inc();
    },
  } satisfies Partial<Observe>;
}
