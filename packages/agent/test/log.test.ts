import { test } from 'tap';
import { limited, makeLog } from '../src/log.ts';

test('at most ten lines a second, and the next one counts those that were left out', (t) => {
  const lines: object[] = [];
  let now = 0;
  const log = limited(
    makeLog((line) => lines.push(JSON.parse(line) as object)),
    () => now,
  );
  for (let i = 0; i < 15; i++) log('info', 'refused', { code: 'invalid_token' });
  t.equal(lines.length, 10);
  now = 999;
  log('info', 'refused');
  t.equal(lines.length, 10);
  now = 1000;
  for (let i = 0; i < 2; i++) log('info', 'refused', { code: 'invalid_token' });
  t.match(lines.slice(10), [
    { level: 'info', msg: 'refused', code: 'invalid_token', omitted: 6 },
    { msg: 'refused' },
  ]);
  t.notMatch(lines[11], { omitted: Number });
  t.end();
});
