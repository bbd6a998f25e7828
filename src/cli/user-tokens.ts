import type { EndedPosition, EndedToken } from '../domain/tokens/ended-token.ts';
import { usedSince } from '../domain/tokens/claims.ts';
import { listEnded } from '../domain/users/list-tokens.ts';
import { summarise, type TokenSummary } from '../domain/users/account-with-tokens.ts';
import { makeTokenStore } from '../infra/postgres/token-store.ts';
import { makeAccountStore } from '../infra/postgres/account-store.ts';
import { systemClock } from '../runtime/system-clock.ts';
import { NO_NAMES } from './account-settings.ts';
import { isoOrNull, type Act } from './command.ts';
import { tokenLifetimes } from './token-lifetimes.ts';

interface UserTokens {
  userId: number;
  tokens: Omit<TokenSummary, 'current'>[];
  ended: EndedToken[];
}

/**
 * `latchkey user tokens`: the owner's token list, from the database alone, without Redis. A refresh shows up about
 * a second later.
 * @returns null if there is no such user.
 * @throws ConfigError, AuthError `unavailable`
 */
export const showTokens: Act = async (postgres, user, { env }) => {
  const lifetimes = tokenLifetimes(env);
  const account = await makeAccountStore(postgres, NO_NAMES).find(user);
  if (!account) return null;
  const userId = account.id;
  const store = makeTokenStore(postgres, lifetimes);
  const now = systemClock.now();
  const tokens = (await store.list(userId, usedSince(now, lifetimes)))
    .map((record) => summarise(record, undefined, 0, lifetimes))
    .filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
  const found: UserTokens = { userId, tokens, ended: [] };
  for (let before: EndedPosition | undefined, isLast = false; !isLast;) {
    const { ended, next } = await listEnded(store, userId, lifetimes, now, before);
    found.ended.push(...ended);
    isLast = next === null;
    before = next ?? undefined;
  }
  return { result: forMachines(found), text: forPeople(found), audited: { userId } };
};

/** The fields and formats of `GET /api/user/tokens`. */
function forMachines({ userId, tokens, ended }: UserTokens): object {
  return {
    user: userId,
    tokens: tokens.map((token) => ({ ...common(token), expires_at: isoOrNull(token.expiresAt) })),
    ended: ended.map((token) => ({
      ...common(token),
      ended_at: isoOrNull(token.endedAt),
      reason: token.reason,
    })),
  };
}

function forPeople({ tokens, ended }: UserTokens): string {
  const line = (token: TokenSummaryLike, end: string) =>
    `${token.id}  ${token.type}  ${JSON.stringify(token.name)}  created ${isoOrNull(token.createdAt) ?? ''}` +
    (token.createdBy === null ? '' : ` by session ${token.createdBy}`) +
    (token.limited ? `  for ${token.limited.audience}: ${token.limited.scopes.join(' ')}` : '') +
    `  last used ${isoOrNull(token.lastUsedAt) ?? 'never'}  ${end}`;
  return [
    ...(tokens.length === 0 ? ['no live tokens'] : []),
    ...tokens.map((token) => line(token, `expires ${isoOrNull(token.expiresAt) ?? 'never'}`)),
    ...ended.map((token) => line(token, `ended ${isoOrNull(token.endedAt) ?? ''}: ${token.reason}`)),
  ].join('\n');
}

type TokenSummaryLike = Pick<
  EndedToken,
  'id' | 'type' | 'name' | 'createdAt' | 'createdBy' | 'limited' | 'lastUsedAt'
>;

function common({ id, type, name, createdAt, createdBy, limited, lastUsedAt }: TokenSummaryLike) {
  return {
    id,
    type,
    name,
    created_at: isoOrNull(createdAt),
    created_by: createdBy,
    scopes: limited?.scopes ?? null,
    audience: limited?.audience ?? null,
    last_used_at: isoOrNull(lastUsedAt),
  };
}
