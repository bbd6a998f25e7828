import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { initialState, MAX_ELAPSED } from '../../../src/domain/sessions/rotation.ts';
import { makeCallerHash } from '../../../src/infra/crypto/keyed-hashes.ts';
import type { RedisClock } from '../../../src/infra/redis/connection/redis-clock.ts';
import { makeRedisTokenStates, type RedisTokenStatesOptions } from '../../../src/infra/redis/token-states.ts';
import { CACHE_TTL, sessionStateContract } from '../../contract/token-states.ts';
import { age, openGate, quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

async function open(t: Test) {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const tokenStates = makeRedisTokenStates(redis, {
    prefix,
    cacheTtl: CACHE_TTL,
    gate: openGate,
    observe: UNOBSERVED,
  });
  return { tokenStates, redis, prefix, pass: (seconds: number) => age(redis, prefix, seconds) };
}

sessionStateContract('redis', open, redisMissing);

test('every key of a user shares its hash tag and none stays for ever', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const now = await tokenStates.preparePut(7);
  await tokenStates.put(aSession(initialState(now - 5, 'home')), aUser(), now);
  await tokenStates.rotate(
    { userId: 7, tokenId: 11 },
    { generation: now - 5, elapsed: 0, window: 0, caller: 'home' },
  );
  await tokenStates.revoke({ userId: 7, tokenId: 12 });
  const keys = (await redis.keys(`${prefix}*`)).sort();
  t.strictSame(keys, [`${prefix}{7}:t:11`, `${prefix}{7}:t:12`, `${prefix}{7}:u`]);
  const longest = { [`${prefix}{7}:t:12`]: 2 * CACHE_TTL };
  for (const key of keys) {
    const ttl = await redis.ttl(key);
    t.ok(ttl > 0 && ttl <= (longest[key] ?? CACHE_TTL), `${key}: ${ttl} s`);
  }
});

test(
  'a renewal writes only the tombstones that are gone, not ours, or have lost a tenth of their time',
  { skip: redisMissing },
  async (t) => {
    const { tokenStates, redis, prefix } = await open(t);
    const keys = [11, 12, 13, 14, 15].map((tokenId) => ({ userId: 7, tokenId }));
    const names = keys.map(({ tokenId }) => `${prefix}{7}:t:${tokenId}`);
    const [kept = '', aged = '', gone = '', other = '', stolen = ''] = names;
    await tokenStates.revokeAll(keys);
    const ttl = 2 * CACHE_TTL;
    await redis.expire(kept, 0.95 * ttl);
    await redis.expire(aged, 0.85 * ttl);
    await redis.del(gone, other);
    await redis.set(other, 'no hash');
    await redis.hset(stolen, 'revoked', 'reused');
    await redis.expire(stolen, 0.95 * ttl);
    await tokenStates.revokeAll(keys);
    t.ok((await redis.ttl(kept)) <= 0.95 * ttl, 'not written');
    for (const name of [aged, gone, other, stolen]) {
      t.equal(await redis.hget(name, 'revoked'), '1');
      t.ok((await redis.ttl(name)) > 0.95 * ttl, 'written');
    }
  },
);

/** How long the user's key still lives is a whole number of seconds in (from, to]. */
async function assertTtl(t: Test, redis: Redis, name: string, from: number, to: number): Promise<void> {
  const ttl = await redis.ttl(name);
  t.ok(ttl > from && ttl <= to, `${ttl} s`);
}

test('a user is stored whole, and as long as its tokens', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const name = `${prefix}{7}:u`;
  const stored = async () => ({ ...(await redis.hgetall(name)) });
  const user = aUser({ username: 'ada', createdAt: 1234, roles: ['editor', 'billing:read'], version: 0 });
  const now = await tokenStates.preparePut(7);
  const whole = {
    since: String(now),
    username: 'ada',
    name: 'Ada Lovelace',
    created: '1234',
    disabled: '2',
    roles: 'editor,billing:read',
    version: '0',
  };
  await tokenStates.put(aSession(initialState(now - 5, 'home')), user, now);
  t.strictSame(await stored(), whole);
  await assertTtl(t, redis, name, 20, CACHE_TTL);
  await tokenStates.putUser({ ...user, disabled: true, roles: [] });
  t.strictSame(await stored(), { ...whole, disabled: '1', roles: '' }, 'the same version counts');
  await redis.expire(name, 5);
  await tokenStates.putUser({ ...user, version: 3 });
  t.strictSame(await stored(), { ...whole, version: '3' });
  await assertTtl(t, redis, name, 5, CACHE_TTL);
  await redis.expire(name, 5);
  await tokenStates.put(aSession(initialState(now - 5, 'home')), { ...user, version: 4 }, now);
  t.strictSame(await stored(), { ...whole, version: '4' });
  await assertTtl(t, redis, name, 5, CACHE_TTL);

  // Only a verified address takes a field of its own.
  const verified = (version: string) => ({ ...whole, version, disabled: '3', verified: version });
  await tokenStates.putUser({ ...user, emailVerified: true, version: 5 });
  t.strictSame(await stored(), verified('5'));
  await tokenStates.putUser({ ...user, version: 6 });
  t.strictSame(await stored(), { ...whole, version: '6', verified: '' });
  const again = { ...user, emailVerified: true, version: 7 };
  await tokenStates.put(aSession(initialState(now - 5, 'home')), again, now);
  t.strictSame(await stored(), verified('7'));
  await tokenStates.put(aSession(initialState(now - 5, 'home')), { ...user, version: 8 }, now);
  t.strictSame(await stored(), { ...whole, version: '8', verified: '' });
});

/** What 1.0.0 writes of a user, at a login, a rebuild or a change. It leaves other fields as they are. */
const byPrevious = (version: number) => ({
  username: 'ada',
  name: 'Ada Lovelace',
  created: '1234',
  disabled: '0',
  roles: 'editor',
  version: String(version),
});

test(
  'beside 1.0.0, an address is verified as of the version that this release has noted',
  { skip: redisMissing },
  async (t) => {
    const { tokenStates, redis, prefix } = await open(t);
    const name = `${prefix}{7}:u`;
    const llt = { userId: 7, tokenId: 12 };
    const user = aUser({ roles: ['editor'], createdAt: 1234, version: 5, emailVerified: true });
    await tokenStates.put(aLongLived(), user, await tokenStates.preparePut(7));
    const isVerified = async () => {
      const answer = await tokenStates.checkLongLived(llt);
      if (answer.outcome !== 'good') throw new Error(answer.outcome);
      t.strictSame(answer.user.roles, ['editor']);
      return answer.user.emailVerified;
    };
    t.equal(await isVerified(), true);
    await redis.hset(name, byPrevious(5));
    t.equal(await isVerified(), true, 'a login, a rebuild or a renewal by 1.0.0');
    await redis.hset(name, byPrevious(6));
    t.equal(await isVerified(), false, 'a change by 1.0.0, perhaps of the address');
    await tokenStates.putUsers([{ ...user, version: 6 }]);
    t.equal(await isVerified(), true, 'this release renews it');
    await redis.hset(name, byPrevious(6));
    t.equal(await isVerified(), true);
    await tokenStates.putUsers([{ ...user, emailVerified: false, version: 7 }]);
    await redis.hset(name, byPrevious(7));
    t.equal(await isVerified(), false);

    await redis.del(name);
    await redis.hset(name, { ...byPrevious(7), since: '1' });
    t.equal(await isVerified(), false, 'a rebuild from nothing');
    await redis.hdel(name, 'version');
    t.equal(await isVerified(), false);
  },
);

test(
  'a user whom 1.0.0 has written is read from the record again, in spite of refreshes',
  { skip: redisMissing },
  async (t) => {
    const { tokenStates, redis, prefix } = await open(t);
    const name = `${prefix}{7}:u`;
    const key = { userId: 7, tokenId: 11 };
    const now = await tokenStates.preparePut(7);
    const record = aSession(initialState(now - 5, 'home'));
    const user = aUser({ emailVerified: true, version: 5 });
    await tokenStates.put(record, user, now);
    let generation = now - 5;
    const refresh = async () => {
      await redis.expire(name, 60);
      const answer = await tokenStates.rotate(key, { generation, elapsed: 0, window: 0, caller: 'home' });
      if (answer.outcome !== 'issued') throw new Error(answer.outcome);
      generation = answer.state.latest;
      return answer.user.emailVerified;
    };
    t.equal(await refresh(), true);
    await assertTtl(t, redis, name, 60, CACHE_TTL);
    await redis.hset(name, byPrevious(5));
    t.equal(await refresh(), true, 'as of this version');
    await redis.hdel(name, 'verified');
    t.equal(await refresh(), false);
    await assertTtl(t, redis, name, 0, 60);

    // Its time is up.
    await redis.del(name);
    const missing = await tokenStates.checkAccess(key, generation);
    if (missing.outcome !== 'missing') throw new Error(missing.outcome);
    t.equal(await tokenStates.put(record, user, missing.now), false, 'the state of the session stays');
    t.match(await tokenStates.checkAccess(key, generation), {
      outcome: 'good',
      user: { emailVerified: true },
    });
    t.equal(await refresh(), true);
    await assertTtl(t, redis, name, 60, CACHE_TTL);
  },
);

test('an answer that leads to a put prepares it, once', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const name = `${prefix}{7}:u`;
  const key = { userId: 7, tokenId: 11 };
  const nowOf = (answer: { outcome: string; now?: number }) => {
    if (answer.outcome !== 'missing') throw new Error(answer.outcome);
    return answer.now;
  };
  for (const ask of [
    () => tokenStates.preparePut(7),
    async () => nowOf(await tokenStates.checkAccess(key, 5)),
    async () => nowOf(await tokenStates.checkLongLived(key)),
    async () =>
      nowOf(await tokenStates.rotate(key, { generation: 5, elapsed: 0, window: 0, caller: 'home' })),
  ]) {
    await redis.del(name);
    const first = await ask();
    t.strictSame({ ...(await redis.hgetall(name)) }, { since: String(first) });
    await assertTtl(t, redis, name, 10, 20);
    await redis.expire(name, 12);
    t.ok(Number(await ask()) > Number(first), 'later');
    t.strictSame({ ...(await redis.hgetall(name)) }, { since: String(first) }, 'an earlier time stays');
    await assertTtl(t, redis, name, 0, 12);
  }
});

test('a time of the future is replaced: the clock was set back', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const name = `${prefix}{7}:u`;
  await tokenStates.put(aLongLived(), aUser(), await tokenStates.preparePut(7));
  const set = await redis.hgetall(name);
  await redis.hset(name, 'since', String(Number(set.since) + 3_600_000_000));
  const answer = await tokenStates.checkLongLived({ userId: 7, tokenId: 13 });
  if (answer.outcome !== 'missing') throw new Error(answer.outcome);
  t.strictSame({ ...(await redis.hgetall(name)) }, { ...set, since: String(answer.now) });
  await assertTtl(t, redis, name, 20, CACHE_TTL);
  t.equal(await tokenStates.put(aLongLived({ id: 13 }), aUser(), answer.now), true);
});

test('nothing is put that was read before the key of its user', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const record = aSession(initialState(5, 'home'));
  const keys = async () => (await redis.keys(`${prefix}*`)).sort();
  const before = await tokenStates.preparePut(7);
  await redis.del(`${prefix}{7}:u`);
  t.equal(await tokenStates.put(record, aUser(), before), false, 'no key');
  t.strictSame(await keys(), []);

  // Another replica asks after all keys have vanished.
  const since = await tokenStates.preparePut(7);
  t.equal(await tokenStates.put(record, aUser(), since - 1), false, 'a newer key');
  t.strictSame({ ...(await redis.hgetall(`${prefix}{7}:u`)) }, { since: String(since) });
  t.strictSame(await keys(), [`${prefix}{7}:u`]);
  t.equal(await tokenStates.put(record, aUser(), since), true);
  t.equal(await tokenStates.put(aLongLived(), aUser({ version: 9 }), before), false, 'also one with a user');
  t.match(await redis.hgetall(`${prefix}{7}:u`), { version: '0' });
  t.equal(await tokenStates.put(aLongLived(), aUser(), since), true);
});

test('a changed user is replaced only where it stands', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const name = `${prefix}{7}:u`;
  const [old, changed] = [aUser({ roles: ['editor'], version: 1 }), aUser({ version: 2 })];
  await tokenStates.putUser(changed);
  await tokenStates.putUsers([changed]);
  t.strictSame(await redis.keys(`${prefix}*`), []);

  const now = await tokenStates.preparePut(7);
  await tokenStates.putUser(aUser({ version: 0 }));
  t.strictSame({ ...(await redis.hgetall(name)) }, { since: String(now), version: '0' });
  await tokenStates.putUser(changed);
  await tokenStates.putUser(old);
  t.strictSame({ ...(await redis.hgetall(name)) }, { since: String(now), version: '2' });
  await assertTtl(t, redis, name, 0, 20);
  await tokenStates.put(aLongLived(), old, now);
  t.match(await tokenStates.checkLongLived({ userId: 7, tokenId: 12 }), { outcome: 'missing' });
  await tokenStates.put(aLongLived(), changed, now);
  const known = await tokenStates.checkLongLived({ userId: 7, tokenId: 12 });
  t.strictSame('user' in known && known.user, aUser());
});

test('a renewal writes only users that have changed', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const name = `${prefix}{7}:u`;
  const user = aUser({ version: 2, roles: ['editor'] });
  await tokenStates.put(aLongLived(), user, await tokenStates.preparePut(7));
  await redis.expire(name, 5);
  await tokenStates.putUsers([user]);
  await assertTtl(t, redis, name, 0, 5);
  const changes = [
    { username: 'other' },
    { name: 'Other' },
    { createdAt: 9 },
    { disabled: true },
    { emailVerified: true },
    { roles: ['admin'] },
    { version: 99 },
  ];
  for (const [i, changed] of changes.entries()) {
    const before = { ...user, version: 3 + i };
    await tokenStates.putUsers([before]);
    await redis.expire(name, 5);
    await tokenStates.putUsers([{ ...before, ...changed }]);
    await assertTtl(t, redis, name, 5, CACHE_TTL);
  }
});

test('many users are set with one call for 32 of them', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const users = Array.from({ length: 33 }, (_, i) =>
    aUser({ id: i + 1, version: 2, name: `${i}`, roles: [] }),
  );
  const llts = users.map(({ id }) => aLongLived({ id, userId: id }));
  for (const [i, llt] of llts.entries())
    await tokenStates.put(llt, { ...aUser(), id: i + 1, version: 1 }, await tokenStates.preparePut(i + 1));
  const putUser = redis.putUser.bind(redis);
  const calls: unknown[] = [];
  redis.putUser = (...args) => {
    calls.push(args[0]);
    return putUser(...args);
  };
  await tokenStates.putUsers(users);
  t.strictSame(calls, [32, 1]);
  const names = await Promise.all(users.map(({ id }) => redis.hget(`${prefix}{${id}}:u`, 'name')));
  t.strictSame(
    names,
    users.map(({ name }) => name),
  );
});

test('what was read from the record too long ago is not put', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const now = await tokenStates.preparePut(7);
  // Otherwise it would be refused as older than the user's key.
  await redis.hset(`${prefix}{7}:u`, { since: String(now - 60_000_000) });
  t.equal(await tokenStates.put(aLongLived(), aUser(), now - 10_000_001), false);
  t.equal(await tokenStates.put(aLongLived(), aUser(), now - 9_000_000), true);
});

// docs/adr/0017: the limit for names of up to 30 characters, as with the default prefix.
test('a refreshed and confirmed session is a compact hash', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const key = { userId: 7, tokenId: 11 };
  const name = `${prefix}{7}:t:11`;
  t.ok(name.length <= 30, name);
  const now = await tokenStates.preparePut(7);
  const caller = makeCallerHash(randomBytes(32))([192, 0, 2, 7], 'a browser');
  const login = initialState(now - 600_000_000, caller);
  await tokenStates.put(aSession(login), aUser(), now);
  const refresh = { generation: login.latest, elapsed: 0, window: 0, caller };
  const refreshed = await tokenStates.rotate(key, refresh);
  t.match(refreshed, { outcome: 'issued' });
  if ('state' in refreshed) await tokenStates.checkAccess(key, refreshed.state.latest);
  t.match(await redis.hgetall(name), { confirmed: '1', client: caller, parent: String(login.latest) });
  t.equal(await redis.object('ENCODING', name), 'listpack');
  const bytes = Number(await redis.memory('USAGE', name));
  t.ok(bytes > 0 && bytes <= 200, `${bytes} bytes`);
});

test('the way to Redis counts as time inside', { skip: redisMissing }, async (t) => {
  const { tokenStates, redis, prefix } = await open(t);
  const key = { userId: 7, tokenId: 11 };
  const SECOND = 1_000_000;
  const now = await tokenStates.preparePut(7);
  const state = { ...initialState(now - SECOND, 'home'), parent: now - 9 * SECOND, confirmed: true };
  await tokenStates.put(aSession(state), aUser(), now);
  const arriving = async (generation: number, way: number, elapsed: number) => {
    const sentAt = (await tokenStates.now()) - way * SECOND;
    const clock: RedisClock = { stamp: () => Promise.resolve({ sentAt, learn: () => undefined }) };
    const late = makeRedisTokenStates(redis, {
      prefix,
      cacheTtl: CACHE_TTL,
      gate: openGate,
      clock,
      observe: UNOBSERVED,
    });
    return late.rotate(key, { generation, elapsed: elapsed * SECOND, window: 0, caller: 'home' });
  };
  const before = await redis.hgetall(`${prefix}{7}:t:11`);
  const stale = { outcome: 'refused', reason: 'stale' };
  for (const generation of [state.latest, state.parent]) {
    t.match(await arriving(generation, 6, 0), stale, 'sent long ago');
    t.match(await arriving(generation, 3, 3), stale, 'both together');
    t.match(await arriving(generation, -60, 6), stale, 'sent in the future does not make it newer');
  }
  t.match(await arriving(state.parent, 3, 0), { outcome: 'repeated' }, 'sent before the latest was issued');
  t.strictSame(await redis.hgetall(`${prefix}{7}:t:11`), before, 'nothing has changed');
  t.match(await arriving(state.latest, -60, 0), { outcome: 'issued', row: 'current' });
});

test(
  "Redis's clock jumps ahead: what is not late by our own is asked once more",
  { skip: redisMissing },
  async (t) => {
    const { tokenStates, redis, prefix } = await open(t);
    const key = { userId: 7, tokenId: 11 };
    const now = await tokenStates.preparePut(7);
    await tokenStates.put(aSession(initialState(now - 5, 'home')), aUser(), now);
    const given: number[] = [];
    const watched = Object.assign(Object.create(redis) as typeof redis, {
      rotate: async (...args: Parameters<typeof redis.rotate>) => {
        given.push(Number(String(args[3]).split(' ')[1]));
        const reply = await redis.rotate(...args);
        await new Promise((resolve) => setTimeout(resolve, 20));
        return reply;
      },
    });
    const behindAtFirst: RedisClock = {
      stamp: async () => ({
        sentAt: (await tokenStates.now()) - (given.length === 0 ? 6_000_000 : 0),
        learn: () => undefined,
      }),
    };
    const jumped = makeRedisTokenStates(watched, {
      prefix,
      cacheTtl: CACHE_TTL,
      gate: openGate,
      clock: behindAtFirst,
      observe: UNOBSERVED,
    });
    const presented = { generation: now - 5, window: 0, caller: 'home' };
    t.match(await jumped.rotate(key, { ...presented, elapsed: MAX_ELAPSED }), { reason: 'stale' });
    t.strictSame(given.splice(0), [MAX_ELAPSED], 'late by our clock too');
    t.match(await jumped.rotate(key, { ...presented, elapsed: 3 }), { outcome: 'issued', row: 'current' });
    t.equal(given.length, 2);
    t.equal(given[0], 3);
    t.ok(Number(given[1]) >= 15_000, 'the first try counts as elapsed time');
  },
);

test('an unreachable Redis is an outage, never an answer', async (t) => {
  const redis = quietRedisClient(t, { url: 'redis://127.0.0.1:1', timeout: 500 });
  const tokenStates = makeRedisTokenStates(redis, {
    prefix: '',
    cacheTtl: CACHE_TTL,
    gate: openGate,
    observe: UNOBSERVED,
  });
  const key = { userId: 7, tokenId: 11 };
  const record = aSession(initialState(5, 'home'));
  const calls: Record<string, () => Promise<unknown>> = {
    now: () => tokenStates.now(),
    preparePut: () => tokenStates.preparePut(7),
    rotate: () => tokenStates.rotate(key, { generation: 5, elapsed: 0, window: 0, caller: '' }),
    checkAccess: () => tokenStates.checkAccess(key, 5),
    checkLongLived: () => tokenStates.checkLongLived(key),
    put: () => tokenStates.put(record, aUser(), 5),
    putUser: () => tokenStates.putUser(aUser()),
    putUsers: () => tokenStates.putUsers([aUser()]),
    revoke: () => tokenStates.revoke(key),
    noteEnded: () => tokenStates.noteEnded(key),
    revokeAll: () => tokenStates.revokeAll([key]),
    lastUses: () => tokenStates.lastUses(7, [11]),
  };
  t.strictSame(Object.keys(calls).sort(), Object.keys(tokenStates).sort(), 'every method');
  for (const [name, call] of Object.entries(calls)) {
    await t.rejects(() => call(), { name: 'AuthError', code: 'unavailable' }, name);
  }
});

test(
  'reports the reason of each failure, and the command of each answer',
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
    const connect = async (gate: RedisTokenStatesOptions['gate'], timeout = 5000) => {
      const redis = quietRedisClient(t, { url, timeout });
      await redis.connect();
      const tokenStates = makeRedisTokenStates(redis, { prefix, cacheTtl: CACHE_TTL, gate, observe });
      return { redis, tokenStates };
    };
    const away = { code: 'unavailable' };

    const { redis, tokenStates } = await connect(openGate);
    await tokenStates.now();
    await tokenStates.checkLongLived(key);
    t.strictSame(seen.splice(0), ['now true', 'check true']);
    const three = [11, 12, 13].map((tokenId) => ({ userId: 7, tokenId }));
    await tokenStates.revokeAll(three);
    t.strictSame(seen.splice(0), [], 'a batch is no single answer');
    await redis.set(`${prefix}{7}:t:11`, 'no hash');
    await t.rejects(tokenStates.checkLongLived(key), away);
    t.strictSame(seen.splice(0), ['failed: reply'], 'alone, a token fails its call');
    redis.disconnect();
    await t.rejects(tokenStates.now(), away);
    await t.rejects(tokenStates.revokeAll(three), away);
    t.strictSame(seen.splice(0), ['failed: connection', 'failed: connection']);

    const hasty = await connect(openGate, 50);
    // BLPOP blocks this connection only.
    const waiting = hasty.redis.blpop(`${prefix}nothing`, 1).catch(() => undefined);
    await t.rejects(hasty.tokenStates.now(), away);
    t.strictSame(seen.splice(0), ['failed: timeout']);
    await waiting;

    const closed = await connect({ ...openGate, connectionEpoch: () => null });
    await t.rejects(closed.tokenStates.now(), away);
    t.strictSame(seen.splice(0), ['failed: not_ready']);

    const foreign = await connect({ ...openGate, isAdmitted: () => false });
    await t.rejects(foreign.tokenStates.revokeAll(three), away);
    await t.rejects(foreign.tokenStates.putUsers([aUser()]), away);
    t.strictSame(seen.splice(0), ['failed: not_ready', 'failed: not_ready'], 'of another installation');
  },
);
