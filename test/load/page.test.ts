import { test } from 'tap';
import { figure, lineChart, niceStep } from './charts.ts';

test('ticks are 1, 2 or 5 times a power of ten', (t) => {
  t.strictSame([0.011, 0.9, 1, 1.1, 2.5, 7, 40].map(niceStep), [0.02, 1, 1, 2, 5, 10, 50]);
  t.end();
});

test('figures have three digits that count', (t) => {
  t.strictSame([0, 0.01234, 1.5, 12.34, 1234.5, 1e6].map(figure), [
    '0',
    '0.012',
    '1.5',
    '12.3',
    '1,235',
    '1,000,000',
  ]);
  t.end();
});

const chart = { title: 'A', about: 'b', x: 'seconds', y: 'ms' };

test('a line goes from corner to corner, and a gap begins a new one', (t) => {
  const points = [
    [0, 0],
    [5, null],
    [10, 100],
  ] as const;
  const svg = lineChart({ ...chart, series: [{ name: 'p99', points }] });
  const path = /<path class="line s0" d="([^"]+)"/.exec(svg)?.[1];
  t.equal(path, 'M64 256M710 16');
  t.match(svg, 'p99: none');
  t.end();
});

test('a logarithmic axis gives each power of ten the same height', (t) => {
  const points = [
    [0, 1],
    [1, 10],
    [2, 100],
  ] as const;
  const svg = lineChart({ ...chart, isLog: true, series: [{ name: 'p99', points }] });
  t.match(svg, 'd="M64 256L387 136L710 16"');
  t.end();
});

test('names from answers cannot break out of the page', (t) => {
  const name = '<script>"&';
  const svg = lineChart({ ...chart, title: name, series: [{ name, points: [[0, 1]] }] });
  t.notMatch(svg, '<script>');
  t.match(svg, '&lt;script&gt;&quot;&amp;');
  t.end();
});

test('a chart without a value is still one', (t) => {
  for (const isLog of [true, false]) {
    const svg = lineChart({ ...chart, isLog, series: [{ name: 'none', points: [] }] });
    t.notMatch(svg, /NaN|Infinity|undefined/);
  }
  t.end();
});

test('names of lines that end together stand apart, within the chart', (t) => {
  const series = ['a', 'b', 'c'].map((name) => ({ name, points: [[0, 1] as const, [1, 0] as const] }));
  const svg = lineChart({ ...chart, series });
  const places = [...svg.matchAll(/class="name s\d" x="[\d.]+" y="([\d.]+)"/g)].map(([, y]) => Number(y));
  t.strictSame(places, [224, 240, 256]);
  t.end();
});
