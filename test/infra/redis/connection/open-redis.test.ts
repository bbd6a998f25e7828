import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { causeOf } from '../../../../src/infra/redis/connection/errors.ts';
import { fakeSentinel } from './fake-sentinel.ts';
import { quietRedisClient, redisMissing, testRedis } from '../../../support/redis.ts';
import { redisServersMissing, startRedis } from '../../../support/redis-server.ts';
import { until } from '../../../support/until.ts';

test('commands of one turn arrive in order', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const lengths = Array.from({ length: 200 }, (_, i) => redis.rpush(`${prefix}list`, i));
  t.same(
    await Promise.all(lengths),
    lengths.map((_, i) => i + 1),
  );
  t.equal(await redis.llen(`${prefix}list`), 200, 'and a later one after them');
});

test('a large command leaves before the end of the turn', { skip: redisMissing }, async (t) => {
  const { url } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const small = redis.echo('small');
  t.equal(redis.stream.writableCorked, 1, 'a small one waits for others');
  const large = redis.echo('x'.repeat(2000));
  t.equal(redis.stream.writableCorked, 0);
  const after = redis.echo('after');
  t.strictSame(await Promise.all([small, large, after]), ['small', 'x'.repeat(2000), 'after']);
});

test('commands fail while Redis is away, and work once it is back', { skip: redisMissing }, async (t) => {
  const { url } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await t.rejects(redis.ping(), 'before there is a connection');
  if (redis.status !== 'ready') await new Promise((resolve) => redis.once('ready', resolve));
  t.equal(await redis.ping(), 'PONG');

  const again = new Promise((resolve) => redis.once('ready', resolve));
  redis.stream.destroy();
  await t.rejects(Promise.all([redis.ping(), redis.ping()]), 'while the connection is gone');
  await again;
  t.equal(await redis.ping(), 'PONG');
});

test(
  'reconnects if a Sentinel reports a new master during the look-up of the master',
  { skip: redisMissing },
  async (t) => {
    const { url } = testRedis(t);
    const { hostname: host, port } = new URL(url);
    const sentinel = await fakeSentinel(t, { host, port: port || '6379' });
    const nodes = [{ host: '127.0.0.1', port: sentinel.port }];
    const redis = quietRedisClient(t, { url, nodes, sentinel: { name: 'main' }, timeout: 5000 });
    await redis.connect();
    await sentinel.subscribed();
    let told = 0;
    sentinel.asked = async () => {
      if (told++ > 0) return;
      sentinel.tell();
      await sleep(200);
    };
    let ends = 0;
    redis.on('end', () => ends++);
    const again = new Promise((resolve) => redis.once('ready', resolve));
    redis.stream.destroy();
    await again;
    t.equal(await redis.ping(), 'PONG');
    t.ok(ends > 0, 'ioredis itself had given up');

    redis.disconnect();
    await sleep(500);
    t.equal(redis.status, 'end', 'a closed client does not reconnect');
  },
);

test(
  'a database that the server lacks is never replaced by database 0',
  { skip: redisServersMissing },
  async (t) => {
    const server = await startRedis(t, { args: ['--databases', '2'] });
    const redis = quietRedisClient(t, { url: `${server.url}/2`, timeout: 5000 });
    const causes: unknown[] = [];
    redis.on('error', (error) => causes.push(causeOf(error)));
    let isReady = false;
    redis.on('ready', () => {
      isReady = true;
    });
    redis.connect().catch(() => undefined);
    await until(() => causes.length > 2);
    t.match(causes[0], { code: 'ERR', todo: /REDIS_URL names a database that the server lacks/ });
    await t.rejects(redis.set('stray', '1'));
    t.notOk(isReady);
    t.equal(await server.ask('DBSIZE'), 0);
  },
);
