import type { TokenKey } from '../../domain/principal.ts';
import { Cluster } from 'ioredis';
import { MAX_ELAPSED } from '../../domain/sessions/rotation.ts';
import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import { NOTE_TTL, type TokenStateStore, type Tombstone } from '../../domain/tokens/token-states.ts';
import type { User } from '../../domain/user.ts';
import { makeAsk, type AskOptions } from './ask.ts';
import { decodeAccess, decodeLastUse, decodeLongLived, decodeRotation } from './replies.ts';
import { makeTogether } from './connection/together.ts';
import type { ScriptedCluster, ScriptedRedis } from './connection/scripts.ts';

export interface RedisTokenStatesOptions extends AskOptions {
  /** REDIS_PREFIX. */
  prefix: string;
  /** SESSION_CACHE_TTL in seconds. */
  cacheTtl: number;
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
  const { ask, askTimed, askEach, now } = asking;
  const tombstoneTtl = 2 * cacheTtl;
  const userArguments = (user: User) => [keys.user(user.id), cacheTtl, ...userFields(user)];
  const both = (key: TokenKey) => [keys.token(key), keys.user(key.userId)] as const;
  const rotate = makeTogether('rotate', asking, redis instanceof Cluster);
  const check = makeTogether('check', asking, redis instanceof Cluster);
  const tombstone = (key: TokenKey, kind: Tombstone) =>
    [keys.token(key), tombstoneTtl, kind === 'reused' ? 'reused' : '1'] as const;

  return {
    now,

    async rotate(key, { generation, elapsed, window, client }) {
      const start = performance.now();
      const inside = () => elapsed + Math.ceil((performance.now() - start) * 1000);
      const present = (micros: number) =>
        askTimed(keys.token(key), (sentAt) =>
          rotate({
            keys: both(key),
            text: `${generation} ${micros} ${window} ${client} ${cacheTtl} ${tombstoneTtl} ${sentAt}`,
          }),
        );

      const reply = await present(elapsed);
      const [outcome, , reason] = reply;
      // By our clock the request was not late, so Redis's clock was set ahead. The refusal changed nothing, and its
      // reply corrected our estimate: try once more.
      const isClockSet = outcome === 'refused' && reason === 'stale' && inside() <= MAX_ELAPSED;
      return decodeRotation(key.userId, isClockSet ? await present(inside()) : reply);
    },

    async checkAccess(key, generation) {
      return decodeAccess(key.userId, await check({ keys: both(key), text: String(generation) }));
    },

    async checkLongLived(key) {
      return decodeLongLived(key.userId, await check({ keys: both(key), text: '' }));
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
      await askEach('putUser', users.map(userArguments));
    },

    async revoke(key) {
      await ask('revoke', ...tombstone(key, 'revoked'));
    },

    async noteEnded(key) {
      await ask('revoke', keys.token(key), NOTE_TTL, '1', 'note');
    },

    async revokeAll(revoked, kind = 'revoked') {
      await askEach(
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
    ...[state.latest, state.parent, state.first, state.confirmed ? 1 : 0, state.client, createdAt],
    ...(user ? userFields(user) : NO_USER),
  ];
}

/** For put.lua: no user has a version that is as small. */
const NO_USER = ['', '', 0, 0, '', -1];

/** The user as put.lua and put-user.lua take it: a member that has no place here does not compile. */
function userFields({ username, name, createdAt, disabled, roles, version = 0 }: User): (string | number)[] {
  const fields = {
    ...{ username, name, createdAt, disabled: disabled ? 1 : 0, roles: roles.join(','), version },
  } satisfies Record<keyof Omit<User, 'id'>, string | number>;
  return Object.values(fields);
}
