import type { Redis } from 'ioredis';

/** What the bare servers (floor.ts, ruler.ts) share, as the service does it too. */

/** All commands of one turn of the event loop leave in one write. */
export function makeCork(redis: Redis): () => void {
  let isCorked = false;
  return () => {
    if (isCorked) return;
    isCorked = true;
    const { stream } = redis;
    stream.cork();
    setImmediate(() => {
      isCorked = false;
      stream.uncork();
    });
  };
}

/** Checks a token once. fast-jwt's own cache hashes the token each time, which is more than a bare server needs. */
export function remembering<Claims>(read: (token: string) => Claims): (token: string) => Claims {
  const known = new Map<string, Claims>();
  return (token) => {
    let claims = known.get(token);
    if (claims === undefined) known.set(token, (claims = read(token)));
    return claims;
  };
}
