import { test } from 'tap';
import { makeRedisMarks } from '../../../src/infra/installation/redis-marks.ts';
import { quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';

const [one, two] = ['1', '2'].map((digit) => ({ id: digit.repeat(22), mark: digit.repeat(22) })) as [
  { id: string; mark: string },
  { id: string; mark: string },
];

test('a mark is set only over the one that was read', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const marks = makeRedisMarks(redis, prefix);
  const held = async () => (await marks.read()).map((master) => master.held);

  const empty = await marks.read();
  t.strictSame(
    empty.map((master) => master.held),
    [null],
  );
  t.equal(await marks.set(empty, one), true);
  t.strictSame(await held(), [one]);
  t.equal(await marks.set(empty, two), false, 'another replica has set one meanwhile');
  t.strictSame(await held(), [one]);
  const read = await marks.read();
  t.equal(await marks.set(read, two), true);
  t.equal(await marks.set(read, one), false);
  t.strictSame(await held(), [two]);

  for (const garbage of [
    'garbage',
    `${one.id} ${one.mark}\n`,
    `${one.id}  ${one.mark}`,
    `${one.id} short`,
    ' ',
  ]) {
    await redis.set(`${prefix}mark`, garbage);
    t.strictSame(await held(), [{ id: '', mark: '' }], garbage);
  }
  await redis.del(`${prefix}mark`);
  await redis.hset(`${prefix}mark`, 'not', 'a text');
  await t.rejects(marks.read(), { code: 'unavailable' });
});
