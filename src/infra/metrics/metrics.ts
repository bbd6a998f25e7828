import type { Build } from '../../telemetry/build.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { makeFeedMetrics, addGauges, addProcess, type Sources } from './gauges.ts';
import { makeRegistry, seriesOf, type Registry } from './registry.ts';
import { makeTokenMetrics } from './token-metrics.ts';
import {
  POSTGRES_FAILURES,
  STORE_OPERATIONS,
  STORE_FAILURES,
  STATEMENTS,
  TASKS,
  type Task,
} from '../../telemetry/outcomes.ts';
import { LATENCY, ROUND_TRIP, type Counter, type Histogram } from './instruments.ts';
import { HASH_REJECTIONS, MAIL_OUTCOMES, QUEUES, type MailOutcome } from '../../domain/metrics/outcomes.ts';
import { MAIL_KINDS, type MailKind } from '../../domain/mail-kinds.ts';
import { ERROR_CODES, type ErrorCode } from '../../domain/errors.ts';
import { REFUSAL_REASONS, type RefusalReason } from '../../domain/refusal-reasons.ts';

export interface Metrics {
  observe: Observe;
  /** Adds the metrics that are read at each scrape. Their sources exist only after the start. */
  watch(sources: Sources): void;
  /** Prometheus's text format. */
  text(): Promise<string>;
}

/** Every metric of docs/observability.md. @param now milliseconds since 1970. */
export function makeMetrics(options: { hasRedis: boolean; now: () => number; build: Build }): Metrics {
  const registry = makeRegistry();
  const observe: Observe = {
    ...makeRequestMetrics(registry),
    ...makeTokenMetrics(registry),
    ...makeWorkMetrics(registry, options.now),
    ...makeStoreMetrics(registry, options.hasRedis),
    ...makeFeedMetrics(registry),
  };
  addProcess(registry, options.build);
  return {
    observe,
    watch: (sources) => {
      addGauges(registry, sources);
    },
    text: () => registry.text(),
  };
}

/** @param hasRedis if false, the metrics of Redis have no series. */
function makeStoreMetrics(registry: Registry, hasRedis: boolean) {
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

/** Metrics of hashing, of queues, of background tasks and of the audit trail. @param now milliseconds since 1970. */
function makeWorkMetrics(registry: Registry, now: () => number) {
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
  const drops = seriesOf(
    registry.counters('latchkey_queue_dropped_total', 'Entries of full queues, or that waited too long'),
    'queue',
    QUEUES,
  );
  const mails = registry.counters('latchkey_mails_total', 'Wanted mails by what became of them');
  const mailsOf = Object.fromEntries(
    MAIL_KINDS.map((kind) => [kind, seriesOf(mails, 'outcome', MAIL_OUTCOMES, { kind })]),
  ) as Record<MailKind, Record<MailOutcome, Counter>>;
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
    queueDropped: (queue) => {
      drops[queue].inc();
    },
    mail: (kind, outcome) => {
      mailsOf[kind][outcome].inc();
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

/** All other methods share one series, so that clients cannot create series with invented methods. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

export function makeRequestMetrics(registry: Registry) {
  const durations = registry.histograms(
    'http_request_duration_seconds',
    'Requests of the API by route and status',
    LATENCY,
  );
  const errors = makeErrors(registry);
  const late = registry
    .counters('latchkey_lag_rejections_total', 'Logins and signups refused while the event loop is late')
    .with({});
  let inFlight = 0;
  registry.read('gauge', 'http_requests_in_flight', 'Requests being answered', () => inFlight);

  // By route, method and status. Nested, so that no request has to build a key.
  const series = new Map<string, Map<string, Map<number, Histogram>>>();

  function durationOf(method: string, route: string, status: number): Histogram {
    const byMethod = entry(series, route, () => new Map<string, Map<number, Histogram>>());
    const byStatus = entry(byMethod, method, () => new Map<number, Histogram>());
    return entry(byStatus, status, () => durations.with({ method, route, status: String(status) }));
  }

  return {
    requestBegan() {
      inFlight++;
    },
    requestEnded(method, route, status, seconds) {
      inFlight--;
      durationOf(METHODS.has(method) ? method : 'other', route ?? 'none', status).observe(seconds);
    },
    error: (code, reason) => {
      errors(code, reason).inc();
    },
    late: () => {
      late.inc();
    },
  } satisfies Partial<Observe>;
}

/** Each code without a reason, and with each that it may have. */
function makeErrors(registry: Registry): (code: ErrorCode, reason: RefusalReason | null) => Counter {
  const family = registry.counters('latchkey_errors_total', 'Error responses by code and reason');
  const reasonsOf: Partial<Record<ErrorCode, readonly RefusalReason[]>> = REFUSAL_REASONS;
  const plain = seriesOf(family, 'code', ERROR_CODES);
  const exact = new Map(
    ERROR_CODES.map((code) => [
      code,
      new Map((reasonsOf[code] ?? []).map((reason) => [reason, family.with({ code, reason })])),
    ]),
  );
  return (code, reason) => (reason && exact.get(code)?.get(reason)) ?? plain[code];
}

function entry<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}
