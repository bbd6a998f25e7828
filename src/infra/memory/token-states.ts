import type { Clock } from '../../domain/clock.ts';
import type { TokenKey } from '../../domain/principal.ts';
import {
  NOTE_TTL,
  type Known,
  type TokenStateStore,
  type Tombstone,
  type Unusable,
} from '../../domain/tokens/token-state-store.ts';
import { checkAccess, rotate } from '../../domain/sessions/rotation.ts';
import type { SessionState } from '../../domain/tokens/session-state.ts';
import type { User } from '../../domain/user.ts';

export interface MemoryStateOptions {
  /** SESSION_CACHE_TTL in seconds. */
  cacheTtl: number;
  /** The store's clock, in whole microseconds. */
  now: () => number;
}

interface Token {
  state: SessionState;
  createdAt: number;
  usedAt: number;
}

interface Entry {
  token: Token | Tombstone;
  /** Microseconds. */
  expiresAt: number;
}

/** Microseconds: the greatest age of a record that `put` accepts, and the precision of a last use. */
const MAX_PUT_AGE = 10_000_000;
const USE_GRANULARITY = 60_000_000;

/**
 * The store's clock: the wall clock, as Redis has it, because `exp` follows from it and is compared with the wall clock.
 * A monotonic clock would stand still while a laptop sleeps, and each pair issued afterwards would have expired already.
 * It only counts the microseconds between two ticks of the wall clock, which are milliseconds.
 * @returns whole microseconds since 1970.
 */
export function wallMicros({ now, monotonic }: Pick<Clock, 'now' | 'monotonic'>): () => number {
  /** The wall clock minus the monotonic one. */
  let offset = 0;
  return () => {
    const wall = now();
    const elapsed = monotonic();
    // The wall clock was rounded down to a millisecond.
    offset = Math.min(Math.max(offset, wall - elapsed), wall + 1 - elapsed);
    return Math.floor((elapsed + offset) * 1000);
  };
}

/**
 * Replaces Redis in the embedded default: the same contract over maps, for one process. After a restart, read-through
 * rebuilds the states from the records, as with an emptied Redis.
 */
export function makeMemoryTokenStates({
  cacheTtl,
  now,
}: MemoryStateOptions): TokenStateStore & { sweep(): void } {
  const tokens = new Map<string, Entry>();
  const users = new Map<number, { user: User; expiresAt: number }>();
  const stateTtl = cacheTtl * 1_000_000;
  const tombstoneTtl = 2 * stateTtl;

  /** Finds token and user, or the reason why the token is unusable. */
  function find(key: TokenKey): Unusable | { outcome: 'found'; token: Token; user: User } {
    const time = now();
    const token = living(tokens, nameOf(key), time)?.token;
    if (typeof token === 'string') return { outcome: token };
    const user = living(users, key.userId, time)?.user;
    if (!token || !user) return { outcome: 'missing', now: time };
    return user.disabled ? { outcome: 'disabled' } : { outcome: 'found', token, user };
  }

  function keep(key: TokenKey, token: Entry['token'], ttl: number): void {
    tokens.set(nameOf(key), { token, expiresAt: now() + ttl });
  }

  /** An older version than the known one is an older reading. */
  function setUser(user: User): void {
    const time = now();
    const known = living(users, user.id, time)?.user.version ?? 0;
    if ((user.version ?? 0) >= known) users.set(user.id, { user, expiresAt: time + stateTtl });
  }

  return {
    now: async () => now(),

    async rotate(key, presented) {
      const found = find(key);
      if (found.outcome !== 'found') return found;
      const { token, user } = found;
      const time = now();
      const answer = rotate(token.state, { ...presented, now: time });
      if (answer.outcome === 'issued') {
        keep(key, { ...token, state: answer.state }, stateTtl);
        users.set(user.id, { user, expiresAt: time + stateTtl });
      }
      if (answer.outcome === 'reused') keep(key, 'reused', tombstoneTtl);
      return { ...answer, ...known(found), now: time };
    },

    async checkAccess(key, generation) {
      const found = find(key);
      if (found.outcome !== 'found') return found;
      const answer = checkAccess(found.token.state, generation);
      if (answer.outcome === 'superseded') return { outcome: 'superseded', ...known(found) };
      const isFirstUse = answer.state !== found.token.state;
      found.token.state = answer.state;
      return { outcome: 'good', ...known(found), ...(isFirstUse && { confirmed: answer.state }) };
    },

    async checkLongLived(key) {
      const found = find(key);
      if (found.outcome !== 'found') return found;
      const time = now();
      if (time - found.token.usedAt * 1000 < USE_GRANULARITY) return { outcome: 'good', ...known(found) };
      found.token.usedAt = Math.floor(time / 1000);
      return { outcome: 'good', ...known(found), usedAt: found.token.usedAt };
    },

    preparePut: async () => now(),

    async put(record, user, asOf) {
      const time = now();
      if (time - asOf > MAX_PUT_AGE) return false;
      if (user) setUser(user);
      const key = { userId: record.userId, tokenId: record.id };
      if (living(tokens, nameOf(key), time)) return false;
      const { state, createdAt, lastUsedAt } = record;
      keep(key, { state, createdAt, usedAt: lastUsedAt ?? 0 }, stateTtl);
      return true;
    },

    putUser: async (user) => {
      setUser(user);
    },

    putUsers: async (changed) => {
      for (const user of changed) setUser(user);
    },

    revoke: async (...keys) => {
      for (const key of keys) keep(key, 'revoked', tombstoneTtl);
    },

    noteEnded: async (key) => {
      const known = living(tokens, nameOf(key), now())?.token;
      if (typeof known !== 'string') keep(key, 'revoked', NOTE_TTL * 1_000_000);
    },

    revokeAll: async (keys, tombstone = 'revoked') => {
      for (const key of keys) keep(key, tombstone, tombstoneTtl);
    },

    async lastUses(userId, tokenIds) {
      const uses = new Map<number, number>();
      for (const tokenId of tokenIds) {
        const token = living(tokens, nameOf({ userId, tokenId }), now())?.token;
        const lastUse =
          typeof token === 'object' ? Math.max(Math.floor(token.state.latest / 1000), token.usedAt) : 0;
        if (lastUse > 0) uses.set(tokenId, lastUse);
      }
      return uses;
    },

    sweep() {
      const time = now();
      dropExpired(tokens, time);
      dropExpired(users, time);
    },
  };
}

/** Contains the owner, so that a token presented for another user is not found. */
function nameOf({ userId, tokenId }: TokenKey): string {
  return `${userId}:${tokenId}`;
}

function living<Id, Value extends { expiresAt: number }>(
  map: Map<Id, Value>,
  id: Id,
  time: number,
): Value | undefined {
  const value = map.get(id);
  return value && value.expiresAt > time ? value : undefined;
}

function known({ user, token }: { user: User; token: Token }): Known {
  return { user, createdAt: token.createdAt };
}

function dropExpired<Id>(map: Map<Id, { expiresAt: number }>, time: number): void {
  for (const [id, { expiresAt }] of map) if (expiresAt <= time) map.delete(id);
}
