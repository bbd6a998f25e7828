import type { Test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type { User } from '../../src/domain/user.ts';
import { makeRedisClient } from '../../src/infra/redis/connection/open-redis.ts';
import { makeRedisTokenStates, makeTokenKeys } from '../../src/infra/redis/token-states.ts';
import { openGate, redisServer } from '../../test/support/redis.ts';
import { startRedis } from '../../test/support/redis-server.ts';
import { toolsMissing } from '../../test/support/tools.ts';
import { aSession, aUser } from '../../test/support/token.ts';
import { aFingerprint } from './realistic.ts';
import { UNOBSERVED } from '../../test/support/unobserved.ts';

/** REDIS_PREFIX by default. */
const PREFIX = 'latchkey:';
const CACHE_TTL = 3600;
/** Ids of a service that has been in use: seven and eight digits. */
const FIRST_USER = 1_000_001;
const FIRST_TOKEN = 10_000_001;
const USERS = 1000;
/** Sessions in work at once. */
const CHUNK = 500;
/** Microseconds. */
const SINCE_LOGIN = 600_000_000;
/** Retry window, in microseconds. */
const WINDOW = 10_000_000;

export interface RedisBytes {
  sessions: number;
  /** Bytes of a session's key by MEMORY USAGE: name, value and entry in the key space. The mean of a sample. */
  session: number;
  /** The same of a user's key, which all sessions of the user share. */
  user: number;
  /** What `used_memory` grew by for each session. Also counts the entry for the expiry, and the growth of both tables. */
  used: number;
  /** The encoding of the hash. */
  encoding: string;
}

/**
 * The size of a session on a Redis of its own, after a login, a refresh and the first use of the new pair.
 * @param t owns the server.
 * @throws Error if redis-server is not installed: `used_memory` of a shared server counts the data of others.
 */
export async function measureRedisBytes(
  t: Pick<Test, 'teardown'>,
  { sessions }: { sessions: number },
): Promise<RedisBytes> {
  const missing = toolsMissing('bash', 'redis-server');
  if (missing) throw new Error(missing);
  const server = await startRedis(t as Test);
  const redis = makeRedisClient({ server: redisServer(server.url), timeout: 10_000 });
  await redis.connect();
  try {
    const tokenStates = makeRedisTokenStates(redis, {
      prefix: PREFIX,
      cacheTtl: CACHE_TTL,
      gate: openGate,
      observe: UNOBSERVED,
    });
    const inUse = async (number: number) => {
      const user = userOf(number);
      const [key, caller] = [{ userId: user.id, tokenId: FIRST_TOKEN + number }, aFingerprint()];
      const now = await tokenStates.preparePut(user.id);
      const [generation, createdAt] = [now - SINCE_LOGIN, Math.floor((now - SINCE_LOGIN) / 1000)];
      const record = aSession(initialState(generation, caller), {
        id: key.tokenId,
        userId: user.id,
        createdAt,
      });
      await tokenStates.put(record, user, now);
      const refreshed = await tokenStates.rotate(key, { generation, elapsed: 0, window: WINDOW, caller });
      if (refreshed.outcome !== 'issued') throw new Error(`a refresh was ${refreshed.outcome}`);
      await tokenStates.checkAccess(key, refreshed.state.latest);
    };
    // First every user once: the sessions that follow add no user.
    await forEach(0, USERS, inUse);
    const before = await usedMemory(server);
    await forEach(USERS, USERS + sessions, inUse);
    const used = ((await usedMemory(server)) - before) / sessions;

    const keys = makeTokenKeys(PREFIX);
    const sample = Array.from({ length: USERS }, (_, i) => USERS + Math.floor((i * sessions) / USERS));
    const names = sample.map((number) =>
      keys.token({ userId: userOf(number).id, tokenId: FIRST_TOKEN + number }),
    );
    const users = sample.map((number) => keys.user(userOf(number).id));
    const mean = async (all: string[]) => {
      const sizes = await Promise.all(all.map((name) => redis.memory('USAGE', name)));
      return sizes.reduce<number>((sum, size) => sum + Number(size), 0) / sizes.length;
    };
    return {
      sessions,
      used,
      session: await mean(names),
      user: await mean(users),
      encoding: String(await redis.object('ENCODING', names[0] ?? '')),
    };
  } finally {
    redis.disconnect();
  }
}

function userOf(number: number): User {
  const id = FIRST_USER + (number % USERS);
  return aUser({ id, username: `user-${id}` });
}

async function forEach(from: number, to: number, work: (number: number) => Promise<void>): Promise<void> {
  for (let at = from; at < to; at += CHUNK) {
    const count = Math.min(CHUNK, to - at);
    await Promise.all(Array.from({ length: count }, (_, i) => work(at + i)));
  }
}

async function usedMemory({
  info,
}: {
  info: (field: string) => Promise<string | undefined>;
}): Promise<number> {
  return Number(await info('used_memory'));
}
