import { Cluster, type Redis } from 'ioredis';
import type { TokenKey } from '../../domain/sessions/ports.ts';
import { orUnavailable } from './errors.ts';

/** Asked at once. */
const PAGE = 500;

/**
 * Goes through everything that Redis holds of us, page by page. User keys are forgotten, since their users may not be
 * in the record any more, or be others there: they are rebuilt from it.
 * @param visit is told the tokens with a state, and those with a tombstone.
 * @returns how many tokens there were.
 */
export async function visitTokens(
  redis: Redis | Cluster,
  prefix: string,
  visit: (states: TokenKey[], tombstones: TokenKey[]) => Promise<void>,
): Promise<number> {
  // Braces have no meaning in a pattern, and what has one may stand in the prefix.
  const match = `${prefix.replace(/[[\]?*\\]/g, '\\$&')}{*`;
  let visited = 0;
  for await (const names of namesOn(redis, match)) {
    const users = names.filter((name) => name.endsWith('}:u'));
    await orUnavailable(Promise.all(users.map((name) => redis.del(name))));

    const tokens = names.flatMap((name) => keyOf(name.slice(prefix.length)));
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

/** Page by page; of a cluster, what each of its masters holds. */
async function* namesOn(redis: Redis | Cluster, match: string): AsyncIterable<string[]> {
  for (const server of redis instanceof Cluster ? redis.nodes('master') : [redis]) {
    let cursor = '0';
    do {
      const [next, names] = await orUnavailable(server.scan(cursor, 'MATCH', match, 'COUNT', PAGE));
      yield names;
      cursor = next;
    } while (cursor !== '0');
  }
}

/** See keys.ts. */
function keyOf(name: string): { name: string; key: TokenKey }[] {
  const found = /^\{(\d+)\}:t:(\d+)$/.exec(name);
  return found ? [{ name, key: { userId: Number(found[1]), tokenId: Number(found[2]) } }] : [];
}
