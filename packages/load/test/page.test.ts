import { test } from 'tap';
import { chartPlace, chartScripts, figure } from '../src/charts.ts';

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

test('names from answers cannot break out of the page', (t) => {
  const name = '</script><script>"&';
  const chart = { title: name, about: 'b', x: 'seconds', y: 'ms', names: [name], data: [[0], [1]] };
  t.match(chartPlace(chart), '&lt;script&gt;&quot;&amp;');
  t.notMatch(chartPlace(chart), '<script>');
  t.equal(chartScripts([chart]).split('<script>').length, 3, 'uPlot and the charts');
  t.end();
});
