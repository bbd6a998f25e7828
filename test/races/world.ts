import type { TokenKey } from '../../src/domain/principal.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { withReadThrough } from '../../src/domain/tokens/read-through.ts';
import { makeRevokeTokens } from '../../src/domain/tokens/revoke.ts';
import { makeRedisTokenStates } from '../../src/infra/redis/token-states.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { someQueues } from '../support/bounded-queues.ts';
import { locksAwaited } from '../support/begun.ts';
import { withClient } from '../support/postgres.ts';
import { testRecords } from '../support/records.ts';
import { deleteKeys, openGate, quietRedisClient, testRedis } from '../support/redis.ts';
import { stopAfter } from '../support/stop-after.ts';
import { UNOBSERVED } from '../support/unobserved.ts';

/** PostgreSQL and Redis, with one session in both. */
export async function raceWorld(t: Test) {
  const records = await testRecords(t);
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const tokenStates = makeRedisTokenStates(redis, {
    prefix,
    cacheTtl: 3600,
    gate: openGate,
    observe: UNOBSERVED,
  });
  const generation = (await tokenStates.now()) - 60_000_000;
  const key = await records.aSession(initialState(generation, 'home'));
  const asOf = await tokenStates.preparePut(key.userId);
  const found = await records.tokens.find(key.tokenId);
  if (!found) throw new Error('the session is not on record');
  await tokenStates.put(found.record, found.user, asOf);

  const { tokens, revocations } = records;
  return {
    ...records,
    tokenStates,
    key,
    generation,
    user: found.user,
    ...makeRevokeTokens({
      ...someQueues(),
      tokenStates,
      tokens,
      revocations,
      clock: systemClock,
      endOfTick: () => Promise.resolve(),
      pause: sleep,
    }),
    forgetEverything: () => deleteKeys(redis, prefix),
    /** Forgets everything. @returns checks that rebuild, and the look-up of the record, which stops. */
    rebuilding: async () => {
      await deleteKeys(redis, prefix);
      const find = stopAfter((id: number) => tokens.find(id));
      const ports = { tokens: { find: find.work }, clock: systemClock, observe: UNOBSERVED };
      return { find, readThrough: withReadThrough(tokenStates, ports) };
    },
    /** A refresh from another client long after the last one. */
    rotate: (from: number) =>
      tokenStates.rotate(key, { generation: from, elapsed: 0, window: 0, caller: 'other' }),
    isRevoked: async (session: TokenKey = key) =>
      (await tokenStates.checkAccess(session, Number.MAX_SAFE_INTEGER)).outcome === 'revoked',
  };
}

/**
 * Runs `work` while a statement is executed but not committed. Commits it once `work` waits for it.
 * @returns the result of `work`.
 */
export async function duringUncommitted<Result>(
  url: string,
  statement: string,
  work: () => Promise<Result>,
): Promise<Result> {
  return withClient(url, async (client) => {
    await client.query('BEGIN');
    await client.query(statement);
    const running = work();
    await locksAwaited(url);
    await client.query('COMMIT');
    return running;
  });
}
