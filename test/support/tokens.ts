import { createHmac, createPrivateKey, sign } from 'node:crypto';
import type { Acr } from '../../src/domain/principal.ts';
import { lifetimesOf, pairClaims, type TokenType } from '../../src/domain/tokens/claims.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type { SessionState } from '../../src/domain/tokens/session-state.ts';
import { makeTokenCodec, type TokenCodec } from '../../src/http/token-codec.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import type { TestApp } from './app.ts';
import { anAccount, claimsOf, signUp } from './client.ts';
import { sql } from './sql.ts';
import { aUser } from './token.ts';
import { UNOBSERVED } from './unobserved.ts';

export interface StoredSession {
  userId: number;
  tokenId: number;
  /** A token of this session as the service signs it, of any generation. */
  mint(type: Extract<TokenType, 'access' | 'refresh'>, generation: number): string;
}

/**
 * A session in the given state, in the record only and not yet in the fast store. So every row of the rotation table
 * can be tested on every store, without waiting for windows to pass.
 * @param options.acr how it was opened.
 */
export async function aStoredSession(
  target: TestApp,
  state: Partial<SessionState>,
  { acr = null }: { acr?: Acr | null } = {},
): Promise<StoredSession> {
  const { composition, databaseUrl } = target;
  const { config } = composition.app;
  const codec = await codecOf(target);
  const owner = await signUp(target, anAccount());
  const userId = Number(claimsOf(owner.access_token).sub);
  const { latest, parent, first, confirmed, caller } = { ...initialState(0, ''), ...state };
  const createdAt = new Date(Date.now() - 3_600_000);
  const [row] = await sql<{ id: string }>(
    databaseUrl,
    `INSERT INTO tokens (user_id, type, name, created_at, latest, parent, first, confirmed, client)
     VALUES ($1, 'session', 'Kitchen tablet', $2, $3, $4, $5, $6, $7) RETURNING id`,
    [userId, createdAt, latest, parent, first, confirmed, caller],
  );
  const tokenId = Number(row?.id);
  return {
    userId,
    tokenId,
    mint: (type, generation) =>
      codec.sign(
        type,
        pairClaims({ userId, tokenId, generation, acr }, createdAt.getTime(), lifetimesOf(config), aUser())[
          type
        ],
      ),
  };
}

/** The access token as it would be if its session had been opened with a second factor. */
export async function withFactorClaims(target: TestApp, accessToken: string): Promise<string> {
  const { sub, sid, gen, auth_time: openedAt } = claimsOf(accessToken);
  const identity = {
    userId: Number(sub),
    tokenId: Number(sid),
    generation: Number(gen),
    acr: 'mfa' as const,
  };
  const lifetimes = lifetimesOf(target.composition.app.config);
  const { access } = pairClaims(identity, Number(openedAt) * 1000, lifetimes, aUser());
  return (await codecOf(target)).sign('access', access);
}

/** What the refresh token secret makes: a refresh token of any session, opened with a second factor. */
export async function aForgedRefresh(
  target: TestApp,
  session: { userId: number; tokenId: number },
): Promise<string> {
  const identity = { ...session, generation: Date.now() * 1000, acr: 'mfa' as const };
  const lifetimes = lifetimesOf(target.composition.app.config);
  const { refresh } = pairClaims(identity, Date.now(), lifetimes, aUser());
  return (await codecOf(target)).sign('refresh', refresh);
}

function codecOf({ composition }: TestApp): Promise<TokenCodec> {
  const { keyRing, config } = composition.app;
  return makeTokenCodec(keyRing, {
    config,
    observe: UNOBSERVED,
    clock: systemClock,
  });
}

/** A token with the given header and claims, signed with the given key by the header's algorithm. */
export function forge(header: Record<string, unknown>, claims: object, key: string | Buffer = ''): string {
  const input = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${input}.${signature(String(header.alg), input, key)}`;
}

function signature(algorithm: string, input: string, key: string | Buffer): string {
  if (algorithm === 'none') return '';
  if (algorithm.startsWith('HS')) {
    return createHmac(`sha${algorithm.slice(2)}`, key)
      .update(input)
      .digest('base64url');
  }
  const privateKey = createPrivateKey(key);
  const digest = privateKey.asymmetricKeyType === 'ed25519' ? null : 'sha256';
  return sign(digest, Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString(
    'base64url',
  );
}
