import { test } from 'tap';
import { within } from '../src/within.ts';

test('waits for work, but not for ever', async (t) => {
  t.equal(await within(Promise.resolve('done'), 60_000), 'done');
  await t.rejects(within(Promise.reject(new Error('by itself')), 60_000), { message: 'by itself' });
  await t.rejects(within(new Promise(() => undefined), 1), { message: 'timed out' });
});
