import type { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { makeRedisRevocationFeed } from '../../../src/infra/redis/revocation-feed.ts';
import { KEPT, revocationFeedContract } from '../../contract/revocation-feed.ts';
import { published } from '../../support/feed.ts';
import { openGate, quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

async function open(t: Test) {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const options = { prefix, gate: openGate, observe: UNOBSERVED, kept: KEPT };
  const [feed, other] = [makeRedisRevocationFeed(redis, options), makeRedisRevocationFeed(redis, options)];
  return { feed, other, redis, prefix, pass: (seconds: number) => ageFeed(redis, prefix, seconds) };
}

/** Makes all entries of the feed older by these seconds. */
async function ageFeed(redis: Redis, prefix: string, seconds: number): Promise<void> {
  await redis.hincrby(`${prefix}{feed}:state`, 'renewed', -seconds);
  const recent = `${prefix}{feed}:recent`;
  for (const name of await redis.zrange(recent, '0', '-1')) await redis.zadd(recent, 'INCR', -seconds, name);
}

/** The server's name (run id, then replication id) with another digit at this place. */
async function misremember(redis: Redis, prefix: string, place: number): Promise<void> {
  const state = `${prefix}{feed}:state`;
  const server = (await redis.hget(state, 'server')) ?? '';
  if (!/^[0-9a-f]{80}$/.test(server)) throw new Error(`the server is called ${server}`);
  const digit = server[place] === '0' ? '1' : '0';
  await redis.hset(state, 'server', server.slice(0, place) + digit + server.slice(place + 1));
}

revocationFeedContract('redis', open, redisMissing);

const key = { userId: 7, tokenId: 11 };

test('its keys share a hash tag that no user has, and all expire', { skip: redisMissing }, async (t) => {
  const { feed, redis, prefix } = await open(t);
  await feed.publish([key]);
  const keys = (await redis.keys(`${prefix}*`)).sort();
  t.strictSame(
    keys,
    ['recent', 'state', 'stream'].map((name) => `${prefix}{feed}:${name}`),
  );
  for (const name of keys) {
    const ttl = await redis.ttl(name);
    t.ok(ttl > 3500 && ttl <= 3600, `${name}: ${ttl} s`);
  }
  for (const name of keys) await redis.expire(name, 10);
  await feed.publish([key]);
  t.ok((await redis.ttl(keys[1] ?? '')) <= 10, 'a write that adds no event does not renew the TTL');
  await feed.renewed(60_000, 0, null);
  for (const name of keys) t.ok((await redis.ttl(name)) > 3500, `${name} is renewed`);
});

test('a read makes an epoch that expires, and so do added events', { skip: redisMissing }, async (t) => {
  const { feed, redis, prefix } = await open(t);
  await feed.read(0, 1);
  t.ok((await redis.ttl(`${prefix}{feed}:state`)) > 3500);
  await feed.publish([key]);
  for (const name of ['recent', 'stream']) t.ok((await redis.ttl(`${prefix}{feed}:${name}`)) > 3500, name);
});

test('what was added is counted', { skip: redisMissing }, async (t) => {
  const { redis, prefix } = await open(t);
  const added: number[] = [];
  const observe = {
    redisAnswered: () => undefined,
    redisFailed: () => undefined,
    feedPublished: (count: number) => added.push(count),
  };
  const feed = makeRedisRevocationFeed(redis, { prefix, gate: openGate, observe });
  const other = { userId: 7, tokenId: 12 };
  await feed.publish([key, other]);
  await feed.publish([key, { userId: 7, tokenId: 13 }]);
  await feed.publish([other]);
  t.strictSame(added, [2, 1, 0]);
});

// It reads the first field as a token, or as all tokens of a user up to a number.
for (const [what, spoil] of [
  ['its state is gone', (redis: Redis, prefix: string) => redis.del(`${prefix}{feed}:state`)],
  ['its stream is gone', (redis: Redis, prefix: string) => redis.del(`${prefix}{feed}:stream`)],
  [
    'it comes from another server, or from before a restart',
    (redis: Redis, prefix: string) => misremember(redis, prefix, 0),
  ],
  [
    'its server was demoted and is master again',
    (redis: Redis, prefix: string) => misremember(redis, prefix, 40),
  ],
] as const) {
  test(`a new epoch begins where ${what}`, { skip: redisMissing }, async (t) => {
    const { feed, other, redis, prefix } = await open(t);
    await feed.publish([key]);
    const { epoch } = await feed.read(0, 1);
    await spoil(redis, prefix);
    const anew = await other.read(0, 10);
    t.not(anew.epoch, epoch);
    t.match(anew, { last: 0, events: [] });
    await feed.publish([key]);
    t.strictSame(await published(other), ['7/11'], 'an earlier event does not count as published');
    t.equal((await feed.read(0, 1)).epoch, anew.epoch);
  });
}

test('what was added lately may be forgotten: it is added once more', { skip: redisMissing }, async (t) => {
  const { feed, redis, prefix } = await open(t);
  await feed.publish([key]);
  const { epoch } = await feed.read(0, 1);
  await redis.del(`${prefix}{feed}:recent`);
  await feed.publish([key]);
  t.strictSame(await published(feed), ['7/11', '7/11']);
  t.equal((await feed.read(0, 1)).epoch, epoch);
});

test('no read passes a closed gate, or one that closed meanwhile', { skip: redisMissing }, async (t) => {
  const { feed, redis, prefix } = await open(t);
  await feed.publish([key]);
  const failures: string[] = [];
  const passages: (object | null)[] = [null, {}, {}];
  const gated = makeRedisRevocationFeed(redis, {
    prefix,
    gate: { ...openGate, connectionEpoch: () => passages.shift() ?? null },
    observe: {
      redisFailed: (reason) => failures.push(reason),
      redisAnswered: () => undefined,
      feedPublished: () => undefined,
    },
  });
  await t.rejects(gated.read(0, 10), { code: 'unavailable' });
  await t.rejects(gated.read(0, 10), { code: 'unavailable' });
  t.strictSame(failures, ['not_ready', 'not_ready']);
  await gated.publish([{ userId: 7, tokenId: 12 }]);
  t.strictSame(await published(feed), ['7/11', '7/12'], 'but it is published');
});
