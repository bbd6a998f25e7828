import { test, type Test } from 'tap';
import { initialState, MAX_ELAPSED } from '../../../src/domain/sessions/rotation.ts';
import type { RedisClock } from '../../../src/infra/redis/redis-clock.ts';
import { makeRedisSessionState, type RedisStateOptions } from '../../../src/infra/redis/session-state.ts';
import { CACHE_TTL, sessionStateContract } from '../../contract/session-state.ts';
import { age, openGate, quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';
import { aSession, aUser } from '../../support/token.ts';

async function open(t: Test) {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient({ url, timeout: 5000 });
  await redis.connect();
  t.teardown(() => {
    redis.disconnect();
  });
  const states = makeRedisSessionState(redis, { prefix, cacheTtl: CACHE_TTL, gate: openGate });
  return { states, redis, prefix, pass: (seconds: number) => age(redis, prefix, seconds) };
}

sessionStateContract('redis', open, redisMissing);

test('every key of a user shares its hash tag and none stays for ever', { skip: redisMissing }, async (t) => {
  const { states, redis, prefix } = await open(t);
  const now = await states.now();
  await states.put(aSession(initialState(now - 5, 'home')), aUser(), now);
  await states.rotate(
    { userId: 7, tokenId: 11 },
    { generation: now - 5, elapsed: 0, window: 0, client: 'home' },
  );
  await states.revoke({ userId: 7, tokenId: 12 });
  const keys = (await redis.keys(`${prefix}*`)).sort();
  t.strictSame(keys, [`${prefix}{7}:t:11`, `${prefix}{7}:t:12`, `${prefix}{7}:u`]);
  const longest = { [`${prefix}{7}:t:12`]: 2 * CACHE_TTL };
  for (const key of keys) {
    const ttl = await redis.ttl(key);
    t.ok(ttl > 0 && ttl <= (longest[key] ?? CACHE_TTL), `${key}: ${ttl} s`);
  }
});

test('the way to Redis counts as time inside', { skip: redisMissing }, async (t) => {
  const { states, redis, prefix } = await open(t);
  const key = { userId: 7, tokenId: 11 };
  const SECOND = 1_000_000;
  const now = await states.now();
  const state = { ...initialState(now - SECOND, 'home'), parent: now - 9 * SECOND, confirmed: true };
  await states.put(aSession(state), aUser(), now);
  const arriving = async (generation: number, way: number, elapsed: number) => {
    const sentAt = (await states.now()) - way * SECOND;
    const clock: RedisClock = { timed: (_passage, _key, send) => send(sentAt) };
    const late = makeRedisSessionState(redis, { prefix, cacheTtl: CACHE_TTL, gate: openGate, clock });
    return late.rotate(key, { generation, elapsed: elapsed * SECOND, window: 0, client: 'home' });
  };
  const before = await redis.hgetall(`${prefix}{7}:t:11`);
  const stale = { outcome: 'refused', reason: 'stale' };
  for (const generation of [state.latest, state.parent]) {
    t.match(await arriving(generation, 6, 0), stale, 'sent long ago');
    t.match(await arriving(generation, 3, 3), stale, 'both together');
    t.match(await arriving(generation, -60, 6), stale, 'sent in the future: no younger for that');
  }
  t.match(await arriving(state.parent, 3, 0), { outcome: 'repeated' }, 'sent before the latest was issued');
  t.strictSame(await redis.hgetall(`${prefix}{7}:t:11`), before, 'nothing has changed');
  t.match(await arriving(state.latest, -60, 0), { outcome: 'issued', row: 'current' });
});

test(
  "Redis's clock jumps ahead: what is not late by our own is asked once more",
  { skip: redisMissing },
  async (t) => {
    const { states, redis, prefix } = await open(t);
    const key = { userId: 7, tokenId: 11 };
    const now = await states.now();
    await states.put(aSession(initialState(now - 5, 'home')), aUser(), now);
    const given: number[] = [];
    const watched = Object.assign(Object.create(redis) as typeof redis, {
      rotate: (...args: Parameters<typeof redis.rotate>) => {
        given.push(Number(args[3]));
        return redis.rotate(...args);
      },
    });
    const learns: RedisClock = {
      timed: async (_passage, _key, send) => {
        const reply = await send((await states.now()) - (given.length === 0 ? 6_000_000 : 0));
        await new Promise((resolve) => setTimeout(resolve, 20));
        return reply;
      },
    };
    const jumped = makeRedisSessionState(watched, {
      prefix,
      cacheTtl: CACHE_TTL,
      gate: openGate,
      clock: learns,
    });
    const presented = { generation: now - 5, window: 0, client: 'home' };
    t.match(await jumped.rotate(key, { ...presented, elapsed: MAX_ELAPSED }), { reason: 'stale' });
    t.strictSame(given.splice(0), [MAX_ELAPSED], 'late by our own as well');
    t.match(await jumped.rotate(key, { ...presented, elapsed: 3 }), { outcome: 'issued', row: 'current' });
    t.equal(given.length, 2);
    t.equal(given[0], 3);
    t.ok(Number(given[1]) >= 15_000, 'the first try counts as time inside');
  },
);

test('a Redis that is away is an outage, and never an answer', async (t) => {
  const redis = quietRedisClient({ url: 'redis://127.0.0.1:1', timeout: 500 });
  t.teardown(() => {
    redis.disconnect();
  });
  const states = makeRedisSessionState(redis, { prefix: '', cacheTtl: CACHE_TTL, gate: openGate });
  const key = { userId: 7, tokenId: 11 };
  const record = aSession(initialState(5, 'home'));
  const calls: Record<string, () => Promise<unknown>> = {
    now: () => states.now(),
    rotate: () => states.rotate(key, { generation: 5, elapsed: 0, window: 0, client: '' }),
    checkAccess: () => states.checkAccess(key, 5),
    checkLongLived: () => states.checkLongLived(key),
    put: () => states.put(record, aUser(), 5),
    revoke: () => states.revoke(key),
    revokeAll: () => states.revokeAll([key]),
    lastUses: () => states.lastUses(7, [11]),
  };
  t.strictSame(Object.keys(calls).sort(), Object.keys(states).sort(), 'every method');
  for (const [name, call] of Object.entries(calls)) {
    await t.rejects(() => call(), { name: 'AuthError', code: 'unavailable' }, name);
  }
});

test(
  'what Redis does not answer is told of by why, and what it does by its command',
  { skip: redisMissing },
  async (t) => {
    const seen: string[] = [];
    const observe = {
      redisAnswered: (command: string, seconds: number) =>
        seen.push(`${command} ${seconds > 0 && seconds < 60}`),
      redisFailed: (reason: string) => seen.push(`failed: ${reason}`),
    };
    const { url, prefix } = testRedis(t);
    const key = { userId: 7, tokenId: 11 };
    const connect = async (gate: RedisStateOptions['gate'], timeout = 5000) => {
      const redis = quietRedisClient({ url, timeout });
      t.teardown(() => {
        redis.disconnect();
      });
      await redis.connect();
      const states = makeRedisSessionState(redis, { prefix, cacheTtl: CACHE_TTL, gate, observe });
      return { redis, states };
    };
    const away = { code: 'unavailable' };

    const { redis, states } = await connect(openGate);
    await states.now();
    await states.checkLongLived(key);
    t.strictSame(seen.splice(0), ['now true', 'check_long_lived true']);
    await redis.set(`${prefix}{7}:t:11`, 'no hash');
    await t.rejects(states.checkLongLived(key), away);
    t.strictSame(seen.splice(0), ['failed: reply']);
    redis.disconnect();
    await t.rejects(states.now(), away);
    await t.rejects(states.revokeAll([key]), away);
    t.strictSame(seen.splice(0), ['failed: connection', 'failed: connection']);

    const hasty = await connect(openGate, 50);
    // It keeps its connection waiting, and nobody else.
    const waiting = hasty.redis.blpop(`${prefix}nothing`, 1).catch(() => undefined);
    await t.rejects(hasty.states.now(), away);
    t.strictSame(seen.splice(0), ['failed: timeout']);
    await waiting;

    const closed = await connect({ passage: () => null });
    await t.rejects(closed.states.now(), away);
    t.strictSame(seen.splice(0), ['failed: not_ready']);
  },
);
