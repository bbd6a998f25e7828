import type { Observe } from '../../telemetry/observe.ts';
import { POSTGRES_FAILURES, STORE_OPERATIONS, STORE_FAILURES, STATEMENTS } from '../../telemetry/outcomes.ts';
import { LATENCY, ROUND_TRIP } from './instruments.ts';
import { seriesOf, type Registry } from './registry.ts';

/** @param hasRedis if false, the metrics of Redis have no series. */
export function makeStoreMetrics(registry: Registry, hasRedis: boolean) {
  const redisDurations = registry.histograms(
    'latchkey_redis_duration_seconds',
    'Answered round trips to Redis',
    ROUND_TRIP,
  );
  const redisErrors = registry.counters('latchkey_redis_errors_total', 'Commands that Redis did not answer');
  const answered = hasRedis ? seriesOf(redisDurations, 'command', STORE_OPERATIONS) : null;
  const failed = hasRedis ? seriesOf(redisErrors, 'reason', STORE_FAILURES) : null;
  const statements = seriesOf(
    registry.histograms('latchkey_postgres_statement_duration_seconds', 'Answered SQL statements', LATENCY),
    'statement',
    STATEMENTS,
  );
  const acquired = registry
    .histograms(
      'latchkey_postgres_acquire_duration_seconds',
      'How long callers waited for a connection of the pool',
      LATENCY,
    )
    .with({});
  const postgresErrors = seriesOf(
    registry.counters('latchkey_postgres_errors_total', 'Failed operations on PostgreSQL'),
    'reason',
    POSTGRES_FAILURES,
  );

  return {
    redisAnswered: (command, seconds) => {
      answered?.[command].observe(seconds);
    },
    redisFailed: (reason) => {
      failed?.[reason].inc();
    },
    statementAnswered: (statement, seconds) => {
      statements[statement].observe(seconds);
    },
    connectionAcquired: (seconds) => {
      acquired.observe(seconds);
    },
    postgresFailed: (reason) => {
      postgresErrors[reason].inc();
    },
  } satisfies Partial<Observe>;
}
