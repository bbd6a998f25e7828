import { spawnSync } from 'node:child_process';
import { test } from 'tap';
import { atEndOfTick, makeBatch } from '../../src/infra/tick.ts';

test('tasks run in order at the end of the turn, with those that they add', async (t) => {
  const seen: string[] = [];
  atEndOfTick(() => {
    seen.push('first');
    atEndOfTick(() => seen.push('added'));
  });
  atEndOfTick(() => seen.push('second'));
  t.strictSame(seen, []);
  await new Promise((resolve) => setImmediate(resolve));
  t.strictSame(seen, ['first', 'second', 'added']);
});

test('a task that throws stops no other one', (t) => {
  const file = new URL('../../src/infra/tick.js', import.meta.url).href;
  const script = `
    import { atEndOfTick } from '${file}';
    process.on('uncaughtException', () => console.log('thrown'));
    atEndOfTick(() => { throw new Error(); });
    atEndOfTick(() => {
      console.log('second');
      atEndOfTick(() => console.log('added'));
    });
    setTimeout(() => atEndOfTick(() => console.log('later')), 10);
  `;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  t.equal(stdout, 'thrown\nsecond\nadded\nlater\n');
  t.end();
});

/** A batch that answers each item with itself. */
function echoing({ limit = 16, reply = (items: readonly string[]) => Promise.resolve(items) } = {}) {
  const sent: (readonly string[])[] = [];
  const call = makeBatch<string, string>({
    limit: () => limit,
    run: (items) => {
      sent.push(items);
      return reply(items);
    },
  });
  return { call, sent };
}

test('the items of one turn share a call up to the limit, and each gets its own result', async (t) => {
  const { call, sent } = echoing({ limit: 2 });
  t.strictSame(await Promise.all(['a', 'b', 'c'].map(call)), ['a', 'b', 'c']);
  t.equal(await call('d'), 'd');
  t.strictSame(sent, [['a', 'b'], ['c'], ['d']]);
});

test('a call that fails, or answers too few, fails every item and no later one', async (t) => {
  const cause = new Error('away');
  const replies = [
    () => Promise.reject(cause),
    (items: readonly string[]) => Promise.resolve(items.slice(1)),
  ];
  const { call } = echoing({ reply: (items) => replies.shift()?.(items) ?? Promise.resolve(items) });
  const reasons = async () => {
    const settled = await Promise.allSettled(['a', 'b'].map(call));
    return settled.map((each): unknown => each.status === 'rejected' && each.reason);
  };
  t.strictSame(await reasons(), [cause, cause]);
  t.match(await reasons(), [{ message: '1 results for 2 items' }, Error]);
  t.equal(await call('c'), 'c');
});
