import type { TokenKey } from '../../domain/sessions/ports.ts';

/** The names of our keys. All of one user share the hash tag, so that one script may touch them in a cluster too. */
export interface Keys {
  token(key: TokenKey): string;
  user(userId: number): string;
  /** What feed.lua takes; a hash tag that no user has. */
  feed(): [state: string, stream: string, recent: string];
}

/** @param prefix REDIS_PREFIX; without braces, or it would be the hash tag of every key. */
export function makeKeys(prefix: string): Keys {
  return {
    token: ({ userId, tokenId }) => `${prefix}{${userId}}:t:${tokenId}`,
    user: (userId) => `${prefix}{${userId}}:u`,
    feed: () => [`${prefix}{feed}:state`, `${prefix}{feed}:stream`, `${prefix}{feed}:recent`],
  };
}
