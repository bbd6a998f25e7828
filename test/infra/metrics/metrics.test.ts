import { test } from 'tap';
import { makeRegistry } from '../../../src/infra/metrics/registry.ts';
import { makeRequestMetrics } from '../../../src/infra/metrics/metrics.ts';
import { parseExposition, valueOf } from '../../support/exposition.ts';

test('made-up methods and paths make no series of their own', async (t) => {
  const registry = makeRegistry();
  const metrics = makeRequestMetrics(registry);
  for (let i = 0; i < 50; i++) {
    metrics.requestBegan();
    metrics.requestEnded(`METHOD${i}`, undefined, 404, 0.001);
    metrics.requestBegan();
    metrics.requestEnded('GET', '/api/auth/refresh', 200, 0.001);
  }
  const { samples = [] } = parseExposition(await registry.text()).get('http_request_duration_seconds') ?? {};
  const counts = samples.filter(({ name }) => name.endsWith('_count'));
  t.strictSame(
    counts.map(({ labels, value }) => ({ ...labels, value })),
    [
      { method: 'other', route: 'none', status: '404', value: 50 },
      { method: 'GET', route: '/api/auth/refresh', status: '200', value: 50 },
    ],
  );
});

test('requests in flight count until they are answered', async (t) => {
  const registry = makeRegistry();
  const metrics = makeRequestMetrics(registry);
  const inFlight = async () => valueOf(await registry.text(), 'http_requests_in_flight');
  metrics.requestBegan();
  metrics.requestBegan();
  t.equal(await inFlight(), 2);
  metrics.requestEnded('GET', '/', 200, 1);
  t.equal(await inFlight(), 1);
});
