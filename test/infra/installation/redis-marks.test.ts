import { Cluster } from 'ioredis';
import { test } from 'tap';
import { judge, NEWCOMER } from '../../../src/infra/installation/binding.ts';
import { KNOWN_FOR } from '../../../src/infra/installation/marks.ts';
import { makeRedisMarks } from '../../../src/infra/installation/redis-marks.ts';
import type { ScriptedCluster } from '../../../src/infra/redis/connection/scripts.ts';
import { quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';

const [one, two] = ['1', '2'].map((digit) => ({ id: digit.repeat(22), mark: digit.repeat(22) })) as [
  { id: string; mark: string },
  { id: string; mark: string },
];

/** What `redis-marks` asks of a cluster, without one. */
class FakeCluster extends Cluster {
  readonly stored = new Map<string, { value: string; until: number }>();
  /** Its clock. */
  seconds = 0;

  constructor() {
    super([], { lazyConnect: true });
    Object.assign(this, {
      get: (key: string) => {
        const { value, until } = this.stored.get(key) ?? { value: null, until: 0 };
        return Promise.resolve(until > this.seconds ? value : null);
      },
      setMark: (key: string, _text: string, value: string, ttl: number) => {
        this.stored.set(key, { value, until: this.seconds + ttl });
        return Promise.resolve(1);
      },
    });
  }

  scaleTo(masters: number): void {
    this.slots = Array.from({ length: 16_384 }, (_, slot) => [`m${Math.floor((slot * masters) / 16_384)}`]);
  }
}

test('a mark that was left behind in a cluster is gone before the database forgets it', async (t) => {
  const cluster = new FakeCluster();
  const marks = makeRedisMarks(cluster as unknown as ScriptedCluster, 'p:');
  const recorded = { id: one.id, quietFor: 0, newest: two.mark, before: two.mark };
  const verdict = async () => {
    const held = (await marks.read()).map((master) => master.held);
    return judge(held, { ...recorded, known: new Set([two.mark]) }, NEWCOMER).is;
  };
  cluster.scaleTo(4);
  await marks.set(await marks.read(), one);
  const keys = [...cluster.stored.keys()];
  cluster.scaleTo(3);
  const masters = await marks.read();
  t.equal(masters.length, 3);
  t.ok(
    keys.some((key) => !masters.some((master) => master.key === key)),
    'one is left behind',
  );
  await marks.set(masters, { ...one, mark: two.mark });
  cluster.scaleTo(4);
  t.equal(await verdict(), 'refuse', 'the database has forgotten it too early');
  cluster.seconds = KNOWN_FOR / 1000;
  cluster.scaleTo(3);
  await marks.set(await marks.read(), { ...one, mark: two.mark });
  cluster.scaleTo(4);
  t.equal(await verdict(), 'admit');
});

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
  const expiry = () => redis.ttl(`${prefix}mark`);
  const ttl = await expiry();
  t.ok(ttl > 3600 && ttl < KNOWN_FOR / 1000);
  await redis.expire(`${prefix}mark`, 9);
  await marks.renew(await marks.read());
  t.ok((await expiry()) > ttl - 60);
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
