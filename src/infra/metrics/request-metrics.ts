import { ERROR_CODES, type ErrorCode } from '../../domain/errors.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { REFUSAL_REASONS, type RefusalReason } from '../../domain/refusal-reasons.ts';
import { LATENCY, type Counter, type Histogram } from './instruments.ts';
import { seriesOf, type Registry } from './registry.ts';

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
