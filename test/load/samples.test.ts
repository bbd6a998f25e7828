import { test } from 'tap';
import { makeSamples } from './samples.ts';
import { LOST } from './wire.ts';

test('a request counts where it was due, and its answer where it came', (t) => {
  const samples = makeSamples(1000, 10);
  samples.record({ operation: 'verify', due: 1100, done: 3400, code: 'ok' });
  samples.record({ operation: 'verify', due: 3300, done: 3350, code: '503 unavailable' });
  const [first, second, third, ...rest] = samples.overTime();
  t.match(first, { second: 0, offered: 1, answered: 0, p50: 2300, errors: {} });
  t.match(second, { second: 1, offered: 0, answered: 0, p50: null });
  t.match(third, { second: 2, offered: 1, answered: 2, errors: { '503 unavailable': 1 } });
  t.strictSame(rest, []);
  t.end();
});

test('what was lost on purpose is no error, and what got no answer has no latency', (t) => {
  const samples = makeSamples(0, 10);
  samples.record({ operation: 'refresh', due: 0, done: 10, code: 'ok' });
  samples.record({ operation: 'refresh', due: 0, done: 30, code: LOST });
  samples.record({ operation: 'refresh', due: 0, done: 10_000, code: 'timeout' });
  samples.record({ operation: 'login', due: 0, done: 20, code: '429 rate_limited' });
  t.match(samples.of('refresh'), { requests: 3, ok: 1, lost_on_purpose: 1, errors: { timeout: 1 }, max: 10 });
  const all = samples.all();
  t.match(all, { requests: 4, ok: 1, max: 20 });
  t.strictSame(all.errors, { timeout: 1, '429 rate_limited': 1 });
  t.end();
});

test('a long run has longer intervals, and rates stay those of a second', (t) => {
  const samples = makeSamples(0, 2400);
  for (let i = 0; i < 100; i++)
    samples.record({ operation: 'verify', due: i * 100, done: i * 100, code: 'ok' });
  t.match(samples.overTime(), [{ second: 0, offered: 10, answered: 10 }]);
  t.end();
});
