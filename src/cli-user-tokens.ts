import { systemClock } from './system-clock.ts';
import type { EndedToken } from './domain/tokens/ended-token.ts';
import { usedSince, type Lifetimes } from './domain/tokens/token-record.ts';
import { parseUsername } from './domain/users/identifiers.ts';
import { listEnded, MAX_ENDED_SHOWN } from './domain/users/list-tokens.ts';
import { summarise, type TokenSummary } from './domain/users/profile.ts';
import { makePostgres } from './infra/postgres/client.ts';
import { makeTokenStore } from './infra/postgres/token-store.ts';
import { findUserId } from './infra/postgres/user-status.ts';

export interface UserTokens {
  userId: number;
  tokens: Omit<TokenSummary, 'current'>[];
  ended: EndedToken[];
  isCut: boolean;
}

/**
 * `latchkey user tokens NAME`: what the owner sees, as the record has it. A refresh reaches it about a second later, and
 * the fast store is not asked.
 * @returns null when there is no such user.
 * @throws AuthError `unavailable`
 */
export async function userTokens(
  name: string,
  database: { url: string; timeout: number },
  lifetimes: Lifetimes,
): Promise<UserTokens | null> {
  const username = parseUsername(name);
  if (!username.ok) return null;
  const postgres = makePostgres({ ...database, pool: 1 });
  try {
    const userId = await findUserId(postgres.prisma, username.value);
    if (userId === null) return null;
    const tokens = makeTokenStore(postgres.prisma);
    const now = systemClock.now();
    const live = (await tokens.list(userId, usedSince(now, lifetimes)))
      .map((record) => summarise(record, undefined, 0, lifetimes))
      .filter(({ expiresAt }) => expiresAt === null || expiresAt > now);
    return { userId, tokens: live, ...(await listEnded(tokens, userId, lifetimes, now)) };
  } finally {
    await postgres.close();
  }
}

/** For machines: the names and forms of `GET /api/user/tokens`. */
export function userTokensJson({ userId, tokens, ended, isCut }: UserTokens): object {
  return {
    user: userId,
    tokens: tokens.map((token) => ({ ...common(token), expires_at: iso(token.expiresAt) })),
    ended: ended.map((token) => ({
      ...common(token),
      ended_at: iso(token.endedAt),
      reason: token.reason,
    })),
    ended_cut: isCut,
  };
}

export function userTokensText({ tokens, ended, isCut }: UserTokens): string {
  const line = (token: TokenSummaryLike, end: string) =>
    `${token.id}  ${token.type}  ${JSON.stringify(token.name)}  created ${iso(token.createdAt) ?? ''}` +
    `  last used ${iso(token.lastUsedAt) ?? 'never'}  ${end}`;
  return [
    ...(tokens.length === 0 ? ['no live tokens'] : []),
    ...tokens.map((token) => line(token, `expires ${iso(token.expiresAt) ?? 'never'}`)),
    ...ended.map((token) => line(token, `ended ${iso(token.endedAt) ?? ''}: ${token.reason}`)),
    ...(isCut ? [`only the newest ${MAX_ENDED_SHOWN} that have ended`] : []),
  ].join('\n');
}

type TokenSummaryLike = Pick<EndedToken, 'id' | 'type' | 'name' | 'createdAt' | 'lastUsedAt'>;

function common({ id, type, name, createdAt, lastUsedAt }: TokenSummaryLike) {
  return { id, type, name, created_at: iso(createdAt), last_used_at: iso(lastUsedAt) };
}

/** @param ms milliseconds since 1970. */
function iso(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
