import { test, type Test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeRedisTokenStates } from '../../../src/infra/redis/token-states.ts';
import { CACHE_TTL } from '../../contract/token-states.ts';
import { openGate, quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';
import { startOneNodeCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';
import { aSession, aUser } from '../../support/token.ts';
import { until } from '../../support/until.ts';

const IDS = [11, 12, 13];
const unavailable = { status: 'rejected', reason: { code: 'unavailable' } };

async function open(t: Test, url: string, prefix: string) {
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const failures: string[] = [];
  const answered: string[] = [];
  const observe = {
    redisAnswered: (operation: string) => answered.push(operation),
    redisFailed: (reason: string) => failures.push(reason),
  };
  const tokenStates = makeRedisTokenStates(redis, { prefix, cacheTtl: CACHE_TTL, gate: openGate, observe });
  /** Sessions of users 1 to 3, which are not in one slot of a cluster. */
  const put = async () => {
    const state = initialState((await tokenStates.now()) - 5, 'home');
    for (const [i, id] of IDS.entries()) {
      const asOf = await tokenStates.preparePut(i + 1);
      await tokenStates.put(aSession(state, { userId: i + 1, id }), aUser({ id: i + 1 }), asOf);
    }
    answered.splice(0);
    return state.latest;
  };
  const checkAll = (generation: number) =>
    Promise.allSettled(
      IDS.map((tokenId, i) => tokenStates.checkAccess({ userId: i + 1, tokenId }, generation)),
    );
  const revokeAll = () => tokenStates.revoke(...IDS.map((tokenId, i) => ({ userId: i + 1, tokenId })));
  const lastUses = () => Promise.all(IDS.map((tokenId, i) => tokenStates.lastUses(i + 1, [tokenId, 99])));
  return { redis, tokenStates, put, checkAll, revokeAll, lastUses, failures, answered };
}

const outcomes = (settled: PromiseSettledResult<{ outcome: string }>[]) =>
  settled.map((each) => (each.status === 'fulfilled' ? each.value.outcome : 'rejected'));

test('a key that Redis refuses to read fails only its own token', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const { redis, put, checkAll, failures, answered } = await open(t, url, prefix);
  const latest = await put();
  await redis.set(`${prefix}{2}:t:12`, 'no hash');
  const settled = await checkAll(latest);
  t.strictSame(outcomes(settled), ['good', 'rejected', 'good']);
  t.match(settled[1], unavailable);
  t.match(settled[1], { reason: { cause: { code: 'WRONGTYPE' } } }, 'with its cause');
  t.strictSame(failures, ['reply']);
  t.strictSame(answered, ['check'], 'one command');
});

test(
  'the last uses of several users share a call, and each gets its own',
  { skip: redisMissing },
  async (t) => {
    const { url, prefix } = testRedis(t);
    const { put, lastUses, answered } = await open(t, url, prefix);
    const latest = Math.floor((await put()) / 1000);
    t.strictSame(
      await lastUses(),
      IDS.map((id) => new Map([[id, latest]])),
    );
    t.strictSame(answered, ['last_uses']);
  },
);

test(
  'a full Redis refuses only first uses and states, and takes every tombstone',
  { skip: redisServersMissing },
  async (t) => {
    const { url } = await startRedis(t);
    const { redis, tokenStates, put, checkAll } = await open(t, url, 'full:');
    const latest = await put();
    await redis.config('SET', 'maxmemory', '1');
    await redis.config('SET', 'maxmemory-policy', 'noeviction');
    t.strictSame(outcomes(await checkAll(latest)), ['rejected', 'rejected', 'rejected']);
    t.strictSame(outcomes(await checkAll(latest + 1)), ['good', 'good', 'good'], 'they write nothing');
    const [known, unknown] = [
      { userId: 1, tokenId: 11 },
      { userId: 9, tokenId: 99 },
    ];
    t.match(await tokenStates.checkLongLived(known), { outcome: 'good', usedAt: undefined });
    t.match(await tokenStates.checkAccess(unknown, 1), { outcome: 'missing' }, 'so the record is read');
    await t.rejects(tokenStates.preparePut(9), { code: 'unavailable' });
    await t.rejects(tokenStates.noteEnded(unknown), { code: 'unavailable' });
    await tokenStates.revoke(unknown);
    t.match(await tokenStates.checkAccess(unknown, 1), { outcome: 'revoked' });
    await tokenStates.putUser(aUser({ id: 1, roles: ['admin'], version: 7 }));
    t.match(await checkAll(latest + 1), [{ value: { user: { roles: ['admin'] } } }, {}, {}]);
    await tokenStates.revoke(known);
    await redis.config('SET', 'maxmemory', '0');
    t.strictSame(outcomes(await checkAll(latest)), ['revoked', 'good', 'good']);
  },
);

test(
  'a demoted master fails every token, and loses the connection',
  { skip: redisServersMissing },
  async (t) => {
    const server = await startRedis(t);
    const { redis, tokenStates, put, checkAll } = await open(t, server.url, 'demoted:');
    const latest = await put();
    let reconnects = 0;
    redis.on('reconnecting', () => reconnects++);
    await server.ask('REPLICAOF', '127.0.0.1', '1');
    t.strictSame(outcomes(await checkAll(latest)), ['rejected', 'rejected', 'rejected']);
    await until(() => reconnects > 0);
    for (const check of [
      () => tokenStates.checkLongLived({ userId: 1, tokenId: 11 }),
      () => tokenStates.checkAccess({ userId: 9, tokenId: 99 }, 1),
    ]) {
      // Between two connections the error is another one.
      const isReadOnly = ({ cause }: { cause: { code: string } }) => cause.code === 'READONLY';
      await until(() => check().then(() => false, isReadOnly));
    }
  },
);

test(
  'one node of a cluster in REDIS_URL gets one call for each token',
  { skip: redisServersMissing },
  async (t) => {
    const { url } = await startOneNodeCluster(t);
    const { put, checkAll, revokeAll, lastUses, answered } = await open(t, url, 'one-node:');
    const latest = await put();
    t.strictSame(outcomes(await checkAll(latest)), ['good', 'good', 'good']);
    answered.splice(0);
    t.strictSame(outcomes(await checkAll(latest)), ['good', 'good', 'good']);
    t.strictSame(answered, ['check', 'check', 'check']);
    t.strictSame(
      await lastUses(),
      IDS.map((id) => new Map([[id, Math.floor(latest / 1000)]])),
    );
    await revokeAll();
    t.strictSame(outcomes(await checkAll(latest)), ['revoked', 'revoked', 'revoked']);
  },
);
