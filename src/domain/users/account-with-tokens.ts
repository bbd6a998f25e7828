import type { Principal } from '../principal.ts';
import type { Clock } from '../clock.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { TokenStore } from '../tokens/ports.ts';
import type { TokenLimits, TokenRecord } from '../tokens/token-record.ts';
import { sessionExpiry, usedSince, type Lifetimes } from '../tokens/claims.ts';
import type { User } from '../user.ts';

interface AccountWithTokensPorts {
  tokens: Pick<TokenStore, 'listWithLocale'>;
  tokenStates: Pick<TokenStateStore, 'lastUses'>;
  lifetimes: Lifetimes;
  clock: Clock;
}

/** One line of the owner's list. Times in milliseconds since 1970. */
export interface TokenSummary {
  id: number;
  type: 'refresh' | 'llt' | 'limited';
  name: string;
  createdAt: number;
  /** The session that created an LLT, as in TokenRecord. */
  createdBy: number | null;
  limited: TokenLimits | null;
  lastUsedAt: number | null;
  expiresAt: number | null;
  /** Whether it is the token that the caller presents. */
  current: boolean;
}

/**
 * The owner's account with its locale and its live tokens.
 * @param caller.tokenId the token that the caller presents; 0 for none of the account's.
 * @throws AuthError `unavailable`
 */
export function makeAccountWithTokens({ tokens, tokenStates, lifetimes, clock }: AccountWithTokensPorts) {
  return async function accountWithTokens({ user, tokenId }: Pick<Principal, 'user' | 'tokenId'>): Promise<{
    user: User;
    locale: string | null;
    tokens: TokenSummary[];
  }> {
    const { records, locale } = await tokens.listWithLocale(user.id, usedSince(clock.now(), lifetimes));
    const uses = await tokenStates.lastUses(
      user.id,
      records.map(({ id }) => id),
    );
    const now = clock.now();
    const summaries = records
      .map((record) => summarise(record, uses.get(record.id), tokenId, lifetimes))
      .filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
    return { user, locale, tokens: summaries };
  };
}

export type AccountWithTokens = ReturnType<typeof makeAccountWithTokens>;

/**
 * Takes the later of both last uses: a rotation reaches the record after the fast store, which never learns
 * of the uses that services report.
 */
export function summarise(
  record: TokenRecord,
  lastUse: number | undefined,
  currentId: number,
  lifetimes: Lifetimes,
): TokenSummary {
  const { id, name, createdAt, createdBy, limited } = record;
  const base = { id, name, createdAt, createdBy, limited, current: id === currentId };
  if (record.type === 'llt') {
    const type = limited ? 'limited' : 'llt';
    const lastUsedAt = Math.max(lastUse ?? 0, record.lastUsedAt ?? 0) || null;
    return { ...base, type, lastUsedAt, expiresAt: record.expiresAt };
  }
  const lastUsedAt = Math.max(lastUse ?? 0, Math.floor(record.state.latest / 1000));
  return {
    ...base,
    type: 'refresh',
    lastUsedAt,
    expiresAt: sessionExpiry(createdAt, lastUsedAt * 1000, lifetimes),
  };
}
