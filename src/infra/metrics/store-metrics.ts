import type { Observe } from '../../domain/metrics/observe.ts';
import {
  POSTGRES_FAILURES,
  REDIS_COMMANDS,
  REDIS_FAILURES,
  STATEMENTS,
} from '../../domain/metrics/outcomes.ts';
import { LATENCY, ROUND_TRIP } from './buckets.ts';
import type { Registry } from './registry.ts';
import { seriesOf } from './series.ts';

/** @param hasRedis false leaves Redis's metrics without a series. */
export function makeStoreMetrics(registry: Registry, hasRedis: boolean) {
  const redisDurations = registry.histograms(
    'latchkey_redis_duration_seconds',
    'Round trips to Redis that were answered',
    ROUND_TRIP,
  );
  const redisErrors = registry.counters(
    'latchkey_redis_errors_total',
    'Questions to Redis without an answer',
  );
  const answered = hasRedis ? seriesOf(redisDurations, 'command', REDIS_COMMANDS) : null;
  const failed = hasRedis ? seriesOf(redisErrors, 'reason', REDIS_FAILURES) : null;
  const statements = seriesOf(
    registry.histograms(
      'latchkey_postgres_statement_duration_seconds',
      'Statements that were answered',
      LATENCY,
    ),
    'statement',
    STATEMENTS,
  );
  const acquired = registry
    .histograms(
      'latchkey_postgres_acquire_duration_seconds',
      'How long work waited for a connection of the pool',
      LATENCY,
    )
    .with({});
  const postgresErrors = seriesOf(
    registry.counters('latchkey_postgres_errors_total', 'Work on PostgreSQL that failed'),
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
