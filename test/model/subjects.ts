import type { TokenKey } from '../../src/domain/principal.ts';
import type { Known, TokenStateStore } from '../../src/domain/tokens/token-state-store.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type { Presentation, SessionState } from '../../src/domain/tokens/session-state.ts';
import { makeMemoryTokenStates } from '../../src/infra/memory/token-states.ts';
import { makeTokenKeys } from '../../src/infra/redis/token-states.ts';
import type { RedisClock } from '../../src/infra/redis/connection/redis-clock.ts';
import type { ScriptedRedis } from '../../src/infra/redis/connection/scripts.ts';
import { makeRedisTokenStates } from '../../src/infra/redis/token-states.ts';
import { openGate } from '../support/redis.ts';
import { aSession, aUser } from '../support/token.ts';
import { UNOBSERVED } from '../support/unobserved.ts';

const CACHE_TTL = 3600;
/** A put refuses a state that was read too long ago. This read time is never too old for a history's clock. */
const JUST_READ = Number.MAX_SAFE_INTEGER;

/** A send time in the future makes the time on the network zero: the model knows only the time inside the store. */
const noWay: RedisClock = {
  stamp: () => Promise.resolve({ sentAt: Number.MAX_SAFE_INTEGER, learn: () => undefined }),
};

export interface RedisUnderTest {
  redis: ScriptedRedis;
  prefix: string;
  /** Histories that share it also share calls of check.lua. */
  inRedis: TokenStateStore;
}

/** @param scripted runs the scripts: the plain client, or one that sets the time. */
export function openInRedis(scripted: ScriptedRedis, prefix: string): TokenStateStore {
  return makeRedisTokenStates(scripted, {
    prefix,
    cacheTtl: CACHE_TTL,
    gate: openGate,
    clock: noWay,
    observe: UNOBSERVED,
  });
}

/** One session, in Redis and in memory. */
export interface Subjects {
  /** The facts that come with every answer. */
  known: Known;
  redis: Pick<TokenStateStore, 'rotate' | 'checkAccess'>;
  /** The memory store at a given time in microseconds. */
  memoryAt(now: number): Pick<TokenStateStore, 'rotate' | 'checkAccess'>;
  key: TokenKey;
  /** Replaces the stored state. @param now the store's clock in microseconds. */
  replace(state: SessionState, now: number): Promise<void>;
  /** The hash as it stands in Redis. */
  read(): Promise<Record<string, string>>;
  forget(): Promise<void>;
}

export function makeSubjects({ redis, prefix, inRedis }: RedisUnderTest, userId: number): Subjects {
  const key = { userId, tokenId: 11 };
  const user = aUser({ id: userId });
  const keys = makeTokenKeys(prefix);
  let time = 0;
  const openMemory = () => makeMemoryTokenStates({ cacheTtl: CACHE_TTL, now: () => time });
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
      await inRedis.preparePut(userId);
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

/** The Redis hash of a state, with exact numbers; null is the tombstone of a theft. */
export function hashOf(state: SessionState | null, { createdAt }: Known): Record<string, string> {
  if (!state) return { revoked: 'reused' };
  const { latest, parent, first, confirmed, caller } = state;
  return {
    latest: BigInt(latest).toString(),
    parent: BigInt(parent).toString(),
    first: BigInt(first).toString(),
    confirmed: confirmed ? '1' : '0',
    client: caller,
    created: String(createdAt),
  };
}

/** Lets time pass by moving all past times back, so that no store's clock has to move. */
export function earlier(state: SessionState, micros: number): SessionState {
  return {
    ...state,
    latest: state.latest - micros,
    parent: state.parent === 0 ? 0 : state.parent - micros,
    first: state.first - micros,
  };
}

export type Presented = Omit<Presentation, 'now'>;
