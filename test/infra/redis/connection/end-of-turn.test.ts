import { spawnSync } from 'node:child_process';
import { test } from 'tap';
import { atEndOfTurn } from '../../../../src/infra/redis/connection/end-of-turn.ts';

test('tasks run in order at the end of the turn, with those that they add', async (t) => {
  const seen: string[] = [];
  atEndOfTurn(() => {
    seen.push('first');
    atEndOfTurn(() => seen.push('added'));
  });
  atEndOfTurn(() => seen.push('second'));
  t.strictSame(seen, []);
  await new Promise((resolve) => setImmediate(resolve));
  t.strictSame(seen, ['first', 'second', 'added']);
});

test('a task that throws stops no other one', (t) => {
  const file = new URL('../../../../src/infra/redis/connection/end-of-turn.js', import.meta.url).href;
  const script = `
    import { atEndOfTurn } from '${file}';
    process.on('uncaughtException', () => console.log('thrown'));
    atEndOfTurn(() => { throw new Error(); });
    atEndOfTurn(() => {
      console.log('second');
      atEndOfTurn(() => console.log('added'));
    });
    setTimeout(() => atEndOfTurn(() => console.log('later')), 10);
  `;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  t.equal(stdout, 'thrown\nsecond\nadded\nlater\n');
  t.end();
});
