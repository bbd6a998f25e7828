import type { Known, SessionStateStore, TokenKey } from '../../src/domain/sessions/ports.ts';
import { initialState, type Presentation, type SessionState } from '../../src/domain/sessions/rotation.ts';
import { makeMemorySessionState } from '../../src/infra/memory/session-state.ts';
import { makeKeys } from '../../src/infra/redis/keys.ts';
import type { RedisClock } from '../../src/infra/redis/redis-clock.ts';
import type { ScriptedRedis } from '../../src/infra/redis/scripts.ts';
import { makeRedisSessionState } from '../../src/infra/redis/session-state.ts';
import { openGate } from '../support/redis.ts';
import { aSession, aUser } from '../support/token.ts';

const CACHE_TTL = 3600;
/** A put refuses what was read long ago; this never was, whatever the clock of the history says. */
const JUST_READ = Number.MAX_SAFE_INTEGER;

/** What was sent in the future has no way behind it: the model knows only the time inside. */
const noWay: RedisClock = { timed: (_passage, _key, send) => send(Number.MAX_SAFE_INTEGER) };

export interface RedisUnderTest {
  redis: ScriptedRedis;
  prefix: string;
  /** Runs the scripts: the plain client, or one that says what time it is. */
  scripted: ScriptedRedis;
}

/** One session, in Redis and in memory. */
export interface Subjects {
  /** What comes with every answer. */
  known: Known;
  redis: Pick<SessionStateStore, 'rotate' | 'checkAccess'>;
  /** The memory store, asked at a given time in microseconds. */
  memoryAt(now: number): Pick<SessionStateStore, 'rotate' | 'checkAccess'>;
  key: TokenKey;
  /** Puts a state in place of whatever stands there. @param now the store's clock in microseconds. */
  replace(state: SessionState, now: number): Promise<void>;
  /** The hash as it stands in Redis. */
  read(): Promise<Record<string, string>>;
  forget(): Promise<void>;
}

export function makeSubjects({ redis, prefix, scripted }: RedisUnderTest, userId: number): Subjects {
  const key = { userId, tokenId: 11 };
  const user = aUser({ id: userId });
  const keys = makeKeys(prefix);
  const inRedis = makeRedisSessionState(scripted, {
    prefix,
    cacheTtl: CACHE_TTL,
    gate: openGate,
    clock: noWay,
  });
  let time = 0;
  const openMemory = () => makeMemorySessionState({ cacheTtl: CACHE_TTL, now: () => time });
  let inMemory = openMemory();

  return {
    known: { user, createdAt: aSession(initialState(1, '')).createdAt },
    redis: inRedis,
    memoryAt(now) {
      time = now;
      return inMemory;
    },
    key,
    async replace(state, now) {
      time = now;
      const record = aSession(state, { userId });
      inMemory = openMemory();
      const [, ...taken] = await Promise.all([
        redis.unlink(keys.token(key)),
        inRedis.put(record, user, JUST_READ),
        inMemory.put(record, user, JUST_READ),
      ]);
      if (!taken.every(Boolean)) throw new Error('a store did not take the state');
    },
    read: () => redis.hgetall(keys.token(key)),
    async forget() {
      await redis.unlink(keys.token(key), keys.user(userId));
    },
  };
}

/** The hash that a state is kept as; null is the tombstone of a theft. Numbers to the last digit. */
export function hashOf(state: SessionState | null, { createdAt }: Known): Record<string, string> {
  if (!state) return { revoked: 'reused' };
  const { latest, parent, first, confirmed, client } = state;
  return {
    latest: BigInt(latest).toString(),
    parent: BigInt(parent).toString(),
    first: BigInt(first).toString(),
    confirmed: confirmed ? '1' : '0',
    client,
    created: String(createdAt),
  };
}

/** Time passing is the same as everything having happened earlier: neither store's clock has to be moved. */
export function earlier(state: SessionState, micros: number): SessionState {
  return {
    ...state,
    latest: state.latest - micros,
    parent: state.parent === 0 ? 0 : state.parent - micros,
    first: state.first - micros,
  };
}

export type Presented = Omit<Presentation, 'now'>;
