import type { Principal } from '../access-tokens/principal.ts';
import type { Clock } from '../clock.ts';
import type { SessionStateStore } from '../sessions/ports.ts';
import type { TokenStore } from '../tokens/ports.ts';
import { sessionExpiry, usedSince, type Lifetimes, type TokenRecord } from '../tokens/token-record.ts';
import type { User } from './user.ts';

interface ProfilePorts {
  tokens: Pick<TokenStore, 'list'>;
  states: Pick<SessionStateStore, 'lastUses'>;
  lifetimes: Lifetimes;
  clock: Clock;
}

/** One line of the owner's list. Times in milliseconds since 1970. */
export interface TokenSummary {
  id: number;
  type: 'refresh' | 'llt';
  name: string;
  createdAt: number;
  lastUsedAt: number | null;
  expiresAt: number | null;
  /** It is the token that asks. */
  current: boolean;
}

/**
 * The owner's account with its live tokens: how a client learns their ids.
 * @throws AuthError `unavailable`
 */
export function makeProfile({ tokens, states, lifetimes, clock }: ProfilePorts) {
  return async function profile(principal: Principal): Promise<{ user: User; tokens: TokenSummary[] }> {
    const { user, tokenId } = principal;
    const records = await tokens.list(user.id, usedSince(clock.now(), lifetimes));
    const uses = await states.lastUses(
      user.id,
      records.map(({ id }) => id),
    );
    const now = clock.now();
    const summaries = records
      .map((record) => summarise(record, uses.get(record.id), tokenId, lifetimes))
      .filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
    return { user, tokens: summaries };
  };
}

export type Profile = ReturnType<typeof makeProfile>;

/** The record may be older than what the fast store knows: a rotation reaches it later. */
export function summarise(
  record: TokenRecord,
  lastUse: number | undefined,
  currentId: number,
  lifetimes: Lifetimes,
): TokenSummary {
  const { id, name, createdAt } = record;
  const base = { id, name, createdAt, current: id === currentId };
  if (record.type === 'llt') {
    return { ...base, type: 'llt', lastUsedAt: lastUse ?? record.lastUsedAt, expiresAt: null };
  }
  const lastUsedAt = Math.max(lastUse ?? 0, Math.floor(record.state.latest / 1000));
  return {
    ...base,
    type: 'refresh',
    lastUsedAt,
    expiresAt: sessionExpiry(createdAt, lastUsedAt * 1000, lifetimes),
  };
}
