import { ERROR_CODES } from '../../domain/errors.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { RATE_LIMITS } from '../../domain/audit/event.ts';
import { LATENCY, type Histogram } from './instruments.ts';
import { seriesOf, type Registry } from './registry.ts';

/** All other methods share one series, so that clients cannot create series with invented methods. */
const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

export function makeRequestMetrics(registry: Registry) {
  const durations = registry.histograms(
    'http_request_duration_seconds',
    'Requests of the API by route and status',
    LATENCY,
  );
  const errors = seriesOf(
    registry.counters('latchkey_errors_total', 'Error responses by code'),
    'code',
    ERROR_CODES,
  );
  const limited = seriesOf(
    registry.counters('latchkey_rate_limited_total', 'Requests refused by a rate limit'),
    'limit',
    RATE_LIMITS,
  );
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
    error: (code) => {
      errors[code].inc();
    },
    rateLimited: (limit) => {
      limited[limit].inc();
    },
    late: () => {
      late.inc();
    },
  } satisfies Partial<Observe>;
}

function entry<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}
