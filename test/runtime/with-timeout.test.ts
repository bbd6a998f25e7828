import { test } from 'tap';
import { withTimeout } from '../../src/runtime/with-timeout.ts';

test('waits for work up to the timeout', async (t) => {
  t.equal(await withTimeout(Promise.resolve('done'), 60_000), 'done');
  await t.rejects(withTimeout(Promise.reject(new Error('by itself')), 60_000), { message: 'by itself' });
  await t.rejects(withTimeout(new Promise(() => undefined), 1), { message: 'timed out' });
});
