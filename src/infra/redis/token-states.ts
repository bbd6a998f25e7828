import type { TokenKey } from '../../domain/principal.ts';
import { MAX_ELAPSED } from '../../domain/sessions/rotation.ts';
import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import { NOTE_TTL, type TokenStateStore } from '../../domain/tokens/token-state-store.ts';
import type { User } from '../../domain/user.ts';
import { makeScriptClient, type ScriptClientOptions } from './script-client.ts';
import { masterOf } from './connection/connections.ts';
import { makeRedisClock, type RedisClock } from './connection/redis-clock.ts';
import type { ScriptedCluster, ScriptedRedis } from './connection/scripts.ts';

export interface RedisTokenStatesOptions extends ScriptClientOptions {
  /** REDIS_PREFIX. */
  prefix: string;
  /** SESSION_CACHE_TTL in seconds. */
  cacheTtl: number;
  /** For tests. */
  clock?: RedisClock;
}

/**
 * The token states in Redis. Each operation is one atomic step in one round trip. Tokens that are presented in one turn
 * of the event loop share a call (docs/adr/0005-requests-share-calls-and-commits.md).
 */
export function makeRedisTokenStates(
  redis: ScriptedRedis | ScriptedCluster,
  { prefix, cacheTtl, ...options }: RedisTokenStatesOptions,
): TokenStateStore {
  const keys = makeTokenKeys(prefix);
  const scripts = makeScriptClient(redis, options);
  const clock =
    options.clock ??
    makeRedisClock({
      ask: scripts.clock,
      connectionEpoch: scripts.connectionEpoch,
      masterOf: (key) => masterOf(redis, key),
    });
  const tombstoneTtl = 2 * cacheTtl;
  const keyedUser = (user: User) => ({ key: keys.user(user.id), text: textOf(user) });
  const keyed = (key: TokenKey) => {
    const { userId } = key;
    return { userId, keys: [keys.token(key), keys.user(userId)] as const };
  };

  return {
    now: scripts.now,

    async rotate(key, { generation, elapsed, window, caller }) {
      const start = performance.now();
      const elapsedByNow = () => elapsed + Math.ceil((performance.now() - start) * 1000);
      const attempt = async (elapsedBefore: number) => {
        const { sentAt, learn } = await clock.stamp(keys.token(key));
        const answer = await scripts.rotate(
          keyed(key),
          `${generation} ${elapsedBefore} ${window} ${caller} ${cacheTtl} ${tombstoneTtl} ${sentAt}`,
        );
        learn('now' in answer ? answer.now : null);
        return answer;
      };

      const answer = await attempt(elapsed);
      // Redis took the request for a late one, and refused it without a change. By our clock it is not late: Redis's
      // clock was set ahead after our last estimate. The reply has corrected the estimate, so a second attempt succeeds.
      const isStale = answer.outcome === 'refused' && answer.reason === 'stale';
      return isStale && elapsedByNow() <= MAX_ELAPSED ? attempt(elapsedByNow()) : answer;
    },

    checkAccess: (key, generation) => scripts.checkAccess(keyed(key), generation),
    checkLongLived: (key) => scripts.checkLongLived(keyed(key)),
    preparePut: (userId) => scripts.preparePut(keys.user(userId)),

    put(record, user, asOf) {
      const { keys: names } = keyed({ userId: record.userId, tokenId: record.id });
      return scripts.put([...names, asOf, cacheTtl, ...putArguments(record, user)]);
    },

    putUser: (user) => scripts.putUser(keyedUser(user), cacheTtl),
    putUsers: (users) => scripts.putUsersUngated(users.map(keyedUser), cacheTtl),
    revoke: (...revoked) => scripts.revoke(revoked.map(keys.token), [tombstoneTtl, '1']),
    noteEnded: (key) => scripts.revoke([keys.token(key)], [NOTE_TTL, '1', 'note']),

    revokeAll: (revoked, kind = 'revoked') =>
      scripts.revokeUngated(revoked.map(keys.token), [tombstoneTtl, kind === 'reused' ? 'reused' : '1']),

    async lastUses(userId, tokenIds) {
      const uses = new Map<number, number>();
      if (tokenIds.length === 0) return uses;
      const names = tokenIds.map((tokenId) => keys.token({ userId, tokenId }));
      const lastUses = await scripts.lastUses(names);
      tokenIds.forEach((tokenId, i) => {
        const lastUse = lastUses[i] ?? 0;
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

/** A user for put-user.lua. */
function textOf(user: User): string {
  const fields = userFields(user);
  return [fields.pop(), ...fields].join('\0');
}

/**
 * The user as put.lua takes it, its version last: a member that has no place here does not compile. `disabled` stands for
 * `emailVerified` too (email-verified.lua).
 */
function userFields(user: User): (string | number)[] {
  const { username, name, createdAt, disabled, emailVerified, roles, version = 0 } = user;
  const fields = {
    username,
    name,
    createdAt,
    disabled: disabled ? 1 : emailVerified ? 3 : 2,
    roles: roles.join(','),
    version,
  } satisfies Record<keyof Omit<User, 'id' | 'emailVerified'>, string | number>;
  return Object.values(fields);
}
