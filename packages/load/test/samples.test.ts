import { test } from 'tap';
import { makeSamples } from '../src/samples.ts';
import { LOST, TIMED_OUT, TIMEOUT } from '../src/wire.ts';

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

test('what was lost on purpose is no error, and a lost connection has no latency', (t) => {
  const samples = makeSamples(0, 10);
  samples.record({ operation: 'refresh', due: 0, done: 10, code: 'ok' });
  samples.record({ operation: 'refresh', due: 0, done: 30, code: LOST });
  samples.record({ operation: 'refresh', due: 0, done: 40, code: 'no answer (ECONNRESET)' });
  samples.record({ operation: 'login', due: 0, done: 20, code: '429 rate_limited' });
  t.match(samples.of('refresh'), { requests: 3, ok: 1, lost_on_purpose: 1, timeouts: 0, max: 10 });
  const all = samples.all();
  t.match(all, { requests: 4, ok: 1, max: 20 });
  t.strictSame(all.errors, { 'no answer (ECONNRESET)': 1, '429 rate_limited': 1 });
  t.end();
});

test('a timeout counts in the percentiles, with its timeout at least', (t) => {
  const samples = makeSamples(0, 30);
  for (let i = 0; i < 90; i++) samples.record({ operation: 'verify', due: 0, done: 5, code: 'ok' });
  // It was given up after the timeout of the answer, and its clock says a little less.
  for (let i = 0; i < 8; i++)
    samples.record({ operation: 'verify', due: 0, done: TIMEOUT - 1, code: TIMED_OUT });
  // It waited for a connection before that.
  for (let i = 0; i < 2; i++)
    samples.record({ operation: 'verify', due: 0, done: TIMEOUT + 5000, code: TIMED_OUT });
  const { p50, p90, p99, max, timeouts, errors } = samples.of('verify');
  t.match({ max, timeouts }, { max: TIMEOUT + 5000, timeouts: 10 });
  t.ok((p50 ?? 0) < 6 && (p90 ?? 0) < 6, 'nine of ten were fast');
  t.strictSame(errors, { [TIMED_OUT]: 10 });
  t.ok((p99 ?? 0) >= TIMEOUT);
  const [first, ...rest] = samples.overTime();
  t.match(first, { offered: 100, answered: 90 }, 'a timeout is no answer');
  t.ok((first?.p99 ?? 0) >= TIMEOUT, 'the chart shows it where it was due');
  t.equal(
    rest.reduce((sum, { answered }) => sum + answered, 0),
    0,
  );
  t.end();
});

test('a long run has longer intervals, and rates stay those of a second', (t) => {
  const samples = makeSamples(0, 2400);
  for (let i = 0; i < 100; i++)
    samples.record({ operation: 'verify', due: i * 100, done: i * 100, code: 'ok' });
  t.match(samples.overTime(), [{ second: 0, offered: 10, answered: 10 }]);
  t.end();
});
