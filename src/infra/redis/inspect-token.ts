import type { Cluster, Redis } from 'ioredis';
import type { TokenKey } from '../../domain/principal.ts';
import type { SessionState } from '../../domain/tokens/session-state.ts';
import { decodeState } from './script-client.ts';
import { makeTokenKeys } from './token-states.ts';

/** What Redis holds of a token. */
export interface StoredToken {
  /** `reused` until the record of a theft is written; null if it is no tombstone. */
  tombstone: 'revoked' | 'reused' | null;
  /** null if there is none: the next request rebuilds it from the record. */
  state: SessionState | null;
  isUserDisabled: boolean;
}

/** Reads without a change: unlike a check, it announces no rebuild and confirms no pair. */
export async function readState(redis: Redis | Cluster, prefix: string, key: TokenKey): Promise<StoredToken> {
  const keys = makeTokenKeys(prefix);
  const [token, user] = await Promise.all([
    redis.hmget(keys.token(key), 'latest', 'parent', 'first', 'confirmed', 'client', 'revoked'),
    redis.hmget(keys.user(key.userId), 'disabled'),
  ]);
  const [latest, parent, first, confirmed, caller, revoked] = token.map((field) => field ?? undefined);
  return {
    tombstone: revoked === undefined ? null : revoked === 'reused' ? 'reused' : 'revoked',
    state: latest === undefined ? null : decodeState(latest, parent, first, confirmed === '1', caller),
    isUserDisabled: user[0] === '1',
  };
}
