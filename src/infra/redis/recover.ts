import type { TokenKey } from '../../domain/principal.ts';
import type { Cluster, Redis } from 'ioredis';
import { orUnavailable } from './connection/errors.ts';
import { mastersOf, redisNow } from './inspect.ts';
import { makeFeedKey } from './revocation-feed.ts';

/** Keys per SCAN. */
const PAGE = 500;

/** The highest ids that Redis knows, or 0. Changes nothing. */
export async function highestIds(
  redis: Redis | Cluster,
  prefix: string,
): Promise<{ users: number; tokens: number }> {
  const highest = { users: 0, tokens: 0 };
  for await (const names of namesOn(redis, prefix)) {
    for (const name of names) {
      const [, userId = 0, tokenId = 0] = /^\{(\d+)\}:(?:u|t:(\d+))$/.exec(name) ?? [];
      highest.users = Math.max(highest.users, Number(userId));
      highest.tokens = Math.max(highest.tokens, Number(tokenId));
    }
  }
  return highest;
}

/** Redis's clock, in a cluster the one that is furthest ahead. Milliseconds since 1970. */
export async function redisTime(redis: Redis | Cluster): Promise<number> {
  return Math.max(...(await orUnavailable(Promise.all(mastersOf(redis).map(redisNow)))));
}

/**
 * Visits all our keys in Redis, page by page. Deletes user keys: after a restore, an id may have no row or belong to
 * another user, and read-through rebuilds the key from the record.
 * @param visit receives the tokens with a state, and those with a tombstone.
 * @returns how many tokens there were.
 */
export async function visitTokens(
  redis: Redis | Cluster,
  prefix: string,
  visit: (states: TokenKey[], tombstones: TokenKey[]) => Promise<void>,
): Promise<number> {
  let visited = 0;
  for await (const names of namesOn(redis, prefix)) {
    const users = names.filter((name) => name.endsWith('}:u'));
    await orUnavailable(Promise.all(users.map((name) => redis.del(prefix + name))));

    const tokens = names.flatMap(keyOf);
    const revoked = await orUnavailable(
      Promise.all(tokens.map(({ name }) => redis.hmget(prefix + name, 'revoked'))),
    );
    const keys = (isRevoked: boolean) =>
      tokens.filter((_, i) => (revoked[i]?.[0] !== null) === isRevoked).map(({ key }) => key);
    await visit(keys(false), keys(true));
    visited += tokens.length;
  }
  return visited;
}

/**
 * Lets the feed begin a new epoch, so that every reader gets a snapshot. Its events do not tell of tokens that were lost
 * with their record, and a reader that resumed would keep accepting the long-lived ones that it has asked about.
 */
export async function forgetFeed(redis: Redis | Cluster, prefix: string): Promise<void> {
  await orUnavailable(redis.del(makeFeedKey(prefix)('state')));
}

/** Names of users' and tokens' keys without the prefix, page by page; in a cluster, from each master in turn. */
async function* namesOn(redis: Redis | Cluster, prefix: string): AsyncIterable<string[]> {
  // Braces are literal in a pattern. The prefix may contain characters that are not.
  const match = `${prefix.replace(/[[\]?*\\]/g, '\\$&')}{*`;
  for (const server of mastersOf(redis)) {
    let cursor = '0';
    do {
      const [next, names] = await orUnavailable(server.scan(cursor, 'MATCH', match, 'COUNT', PAGE));
      yield names.map((name) => name.slice(prefix.length));
      cursor = next;
    } while (cursor !== '0');
  }
}

/** The inverse of makeTokenKeys in token-states.ts; a user key yields nothing. */
function keyOf(name: string): { name: string; key: TokenKey }[] {
  const found = /^\{(\d+)\}:t:(\d+)$/.exec(name);
  return found ? [{ name, key: { userId: Number(found[1]), tokenId: Number(found[2]) } }] : [];
}
