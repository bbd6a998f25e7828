import type { TokenKey } from '../../domain/principal.ts';
import { Cluster } from 'ioredis';
import { MAX_ELAPSED } from '../../domain/sessions/rotation.ts';
import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import { NOTE_TTL, type TokenStateStore, type Tombstone } from '../../domain/tokens/token-state-store.ts';
import type { User } from '../../domain/user.ts';
import { makeAsk, type AskOptions } from './ask.ts';
import { decodeAccess, decodeLastUse, decodeLongLived, decodeRotation } from './replies.ts';
import { masterOf } from './connection/connections.ts';
import { makeRedisClock, type RedisClock } from './connection/redis-clock.ts';
import type { ScriptedCluster, ScriptedRedis } from './connection/scripts.ts';
import { makeSharedCalls } from './shared-calls.ts';

export interface RedisTokenStatesOptions extends AskOptions {
  /** REDIS_PREFIX. */
  prefix: string;
  /** SESSION_CACHE_TTL in seconds. */
  cacheTtl: number;
  /** For tests. */
  clock?: RedisClock;
}

/**
 * The token states in Redis. Each operation is one atomic step in one round trip. Tokens that are presented in one turn
 * of the event loop share a call (docs/adr/0030-tokens-share-a-call.md).
 */
export function makeRedisTokenStates(
  redis: ScriptedRedis | ScriptedCluster,
  { prefix, cacheTtl, ...options }: RedisTokenStatesOptions,
): TokenStateStore {
  const keys = makeTokenKeys(prefix);
  const asking = makeAsk(redis, options);
  const { ask, askEachUngated, connectionEpoch, now } = asking;
  const clock =
    options.clock ??
    makeRedisClock({
      ask: (key) => ask('clock', key),
      connectionEpoch,
      masterOf: (key) => masterOf(redis, key),
    });
  const tombstoneTtl = 2 * cacheTtl;
  const userArguments = (user: User) => [keys.user(user.id), cacheTtl, ...userFields(user)];
  const both = (key: TokenKey) => [keys.token(key), keys.user(key.userId)] as const;
  const rotate = makeSharedCalls('rotate', asking, redis instanceof Cluster);
  const check = makeSharedCalls('check', asking, redis instanceof Cluster);
  const tombstone = (key: TokenKey, kind: Tombstone) =>
    [keys.token(key), tombstoneTtl, kind === 'reused' ? 'reused' : '1'] as const;

  return {
    now,

    async rotate(key, { generation, elapsed, window, caller }) {
      const start = performance.now();
      const elapsedByNow = () => elapsed + Math.ceil((performance.now() - start) * 1000);
      const attempt = async (elapsedBefore: number) => {
        const { sentAt, learn } = await clock.stamp(keys.token(key));
        const fields = await rotate(
          both(key),
          `${generation} ${elapsedBefore} ${window} ${caller} ${cacheTtl} ${tombstoneTtl} ${sentAt}`,
        );
        const [, ranAt] = fields;
        learn(ranAt === undefined ? null : Number(ranAt));
        return fields;
      };

      const fields = await attempt(elapsed);
      const [outcome, , reason] = fields;
      // Redis took the request for a late one, and refused it without a change. By our clock it is not late: Redis's
      // clock was set ahead after our last estimate. The reply has corrected the estimate, so a second attempt succeeds.
      const isClockSet = outcome === 'refused' && reason === 'stale' && elapsedByNow() <= MAX_ELAPSED;
      return decodeRotation(key.userId, isClockSet ? await attempt(elapsedByNow()) : fields);
    },

    async checkAccess(key, generation) {
      return decodeAccess(key.userId, await check(both(key), String(generation)));
    },

    async checkLongLived(key) {
      return decodeLongLived(key.userId, await check(both(key), ''));
    },

    async preparePut(userId) {
      return Number(await ask('preparePut', keys.user(userId)));
    },

    async put(record, user, asOf) {
      const key = { userId: record.userId, tokenId: record.id };
      return (await ask('put', ...both(key), asOf, cacheTtl, ...putArguments(record, user))) === 1;
    },

    async putUser(user) {
      await ask('putUser', ...userArguments(user));
    },

    async putUsers(users) {
      await askEachUngated('putUser', users.map(userArguments));
    },

    async revoke(key) {
      await ask('revoke', ...tombstone(key, 'revoked'));
    },

    async noteEnded(key) {
      await ask('revoke', keys.token(key), NOTE_TTL, '1', 'note');
    },

    async revokeAll(revoked, kind = 'revoked') {
      await askEachUngated(
        'revoke',
        revoked.map((key) => tombstone(key, kind)),
      );
    },

    async lastUses(userId, tokenIds) {
      const uses = new Map<number, number>();
      if (tokenIds.length === 0) return uses;
      const names = tokenIds.map((tokenId) => keys.token({ userId, tokenId }));
      const replies = await ask('lastUses', names.length, ...names);
      tokenIds.forEach((tokenId, i) => {
        const lastUse = decodeLastUse(replies[i] ?? [null, null]);
        if (lastUse > 0) uses.set(tokenId, lastUse);
      });
      return uses;
    },
  };
}

/**
 * The names of token and user keys. All keys of one user share the hash tag, so that one script can use them in a
 * cluster too.
 * @param prefix REDIS_PREFIX. It has no braces: they would be the hash tag of every key.
 */
export function makeTokenKeys(prefix: string) {
  return {
    token: ({ userId, tokenId }: TokenKey) => `${prefix}{${userId}}:t:${tokenId}`,
    user: (userId: number) => `${prefix}{${userId}}:u`,
  };
}

/** ARGV 3 to 15 of put.lua. */
function putArguments(record: TokenRecord, user: User | null): (string | number)[] {
  const { state, createdAt, lastUsedAt } = record;
  return [
    lastUsedAt ?? '',
    state.latest,
    state.parent,
    state.first,
    state.confirmed ? 1 : 0,
    state.caller,
    createdAt,
    ...(user ? userFields(user) : NO_USER),
  ];
}

/** For put.lua: no user has a version that is as small. */
const NO_USER = ['', '', 0, 0, '', -1];

/** The user as put.lua and put-user.lua take it: a member that has no place here does not compile. */
function userFields({ username, name, createdAt, disabled, roles, version = 0 }: User): (string | number)[] {
  const fields = {
    username,
    name,
    createdAt,
    disabled: disabled ? 1 : 0,
    roles: roles.join(','),
    version,
  } satisfies Record<keyof Omit<User, 'id'>, string | number>;
  return Object.values(fields);
}
