import { test } from 'tap';
import { makeBatch } from '../../../../src/infra/redis/connection/batch.ts';

/** A batch of numbers, each answered with its double. */
function doubling(limit: () => number, send = (items: number[]) => Promise.resolve(items)) {
  const sent: number[][] = [];
  const call = makeBatch<number, number, number>({
    limit,
    send: (items) => {
      sent.push(items);
      return send(items);
    },
    decode: (item, reply) => {
      if (item === 13) throw new Error('unlucky');
      return 2 * reply;
    },
  });
  return { call, sent };
}

test('the calls of one turn leave together, and each gets its own answer', async (t) => {
  const { call, sent } = doubling(() => 64);
  t.strictSame(await Promise.all([1, 2, 3].map(call)), [2, 4, 6]);
  t.equal(await call(4), 8);
  t.strictSame(sent, [[1, 2, 3], [4]]);
});

test('no more leave together than the limit, which may change', async (t) => {
  let limit = 2;
  const { call, sent } = doubling(() => limit);
  t.strictSame(await Promise.all([1, 2, 3, 4, 5].map(call)), [2, 4, 6, 8, 10]);
  t.strictSame(sent.splice(0), [[1, 2], [3, 4], [5]]);
  limit = 1;
  await Promise.all([1, 2].map(call));
  t.strictSame(sent, [[1], [2]]);
});

test('an answer that cannot be read fails only its own call', async (t) => {
  const { call } = doubling(() => 64);
  const [before, unlucky, after] = await Promise.allSettled([1, 13, 3].map(call));
  t.match(before, { value: 2 });
  t.match(unlucky, { status: 'rejected', reason: { message: 'unlucky' } });
  t.match(after, { value: 6 });
});

test('if sending fails, every call fails with that cause, and the next ones are sent', async (t) => {
  const cause = new Error('no connection');
  const failures = [cause];
  const { call } = doubling(
    () => 64,
    (items) => {
      const failure = failures.pop();
      return failure ? Promise.reject(failure) : Promise.resolve(items);
    },
  );
  const settled = await Promise.allSettled([1, 2].map(call));
  t.strictSame(
    settled.map((each): unknown => each.status === 'rejected' && each.reason),
    [cause, cause],
  );
  t.equal(await call(3), 6);
});
