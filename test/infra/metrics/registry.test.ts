import { test } from 'tap';
import { makeRegistry } from '../../../src/infra/metrics/registry.ts';

test('writes the text format of Prometheus', async (t) => {
  const registry = makeRegistry();
  const counters = registry.counters('logins_total', 'Logins');
  const [good, bad] = [
    counters.with({ outcome: 'good' }),
    counters.with({ outcome: 'bad', why: 'a "b"\\\n' }),
  ];
  good.inc();
  good.inc();
  bad.inc();
  const took = registry.histograms('took_seconds', 'How long', [0.5, 1]).with({ of: 'x' });
  for (const seconds of [0.5, 0.6, 2]) took.observe(seconds);
  registry.read('gauge', 'depth', 'How deep', () => Promise.resolve(3));
  registry.read('counter', 'cpu_seconds_total', 'Work', () => [{ labels: { mode: 'user' }, value: 0.25 }]);
  registry.counters('never_total', 'What has no series yet');
  t.equal(
    await registry.text(),
    `# HELP logins_total Logins
# TYPE logins_total counter
logins_total{outcome="good"} 2
logins_total{outcome="bad",why="a \\"b\\"\\\\\\n"} 1
# HELP took_seconds How long
# TYPE took_seconds histogram
took_seconds_bucket{of="x",le="0.5"} 1
took_seconds_bucket{of="x",le="1"} 2
took_seconds_bucket{of="x",le="+Inf"} 3
took_seconds_sum{of="x"} 3.1
took_seconds_count{of="x"} 3
# HELP depth How deep
# TYPE depth gauge
depth 3
# HELP cpu_seconds_total Work
# TYPE cpu_seconds_total counter
cpu_seconds_total{mode="user"} 0.25
# HELP never_total What has no series yet
# TYPE never_total counter
`,
  );
});

test('refuses a second metric with the same name', (t) => {
  const registry = makeRegistry();
  registry.counters('logins_total', 'Logins');
  t.throws(() => {
    registry.read('gauge', 'logins_total', 'Others', () => 1);
  }, /logins_total is registered twice/);
  t.end();
});
