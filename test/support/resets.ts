import { randomBytes } from 'node:crypto';
import { canonicalAddress } from '../../src/domain/address.ts';
import type { TokenKind } from '../../src/domain/mail-kinds.ts';
import {
  hashOneTimeToken,
  newResetToken,
  newVerificationToken,
} from '../../src/domain/passwords/one-time-token.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { issueReset } from '../../src/infra/postgres/password-resets.ts';
import { call, type Target } from './client.ts';
import { sql } from './sql.ts';

/** Does the work of `latchkey user reset` without a process. @returns the token. */
export async function aReset(databaseUrl: string, userId: number, ttl = 1800): Promise<string> {
  const token = newResetToken(randomBytes);
  const postgres = makePostgres({ url: databaseUrl, pool: 1, timeout: 5000, observe: null });
  try {
    const issued = await issueReset(postgres, { id: userId }, hashOneTimeToken(token), ttl);
    if (!issued) throw new Error(`there is no user ${userId}`);
  } finally {
    await postgres.close();
  }
  return token;
}

/** Does the work of a mailer. @returns the token. */
export function aMailedReset(databaseUrl: string, userId: number): Promise<string> {
  return mailed(databaseUrl, 'password_reset', userId, newResetToken(randomBytes));
}

/** Does the work of a mailer. @returns the token. */
export function aVerification(databaseUrl: string, userId: number): Promise<string> {
  return mailed(databaseUrl, 'email_verification', userId, newVerificationToken(randomBytes));
}

/** Makes the address pending, and does the work of a mailer. @returns the token. */
export async function aPendingAddress(databaseUrl: string, userId: number, email: string): Promise<string> {
  await sql(databaseUrl, 'UPDATE users SET pending_email = $1, pending_key = $2 WHERE id = $3', [
    email,
    canonicalAddress(email),
    userId,
  ]);
  return mailed(databaseUrl, 'email_change', userId, newVerificationToken(randomBytes));
}

async function mailed(databaseUrl: string, kind: TokenKind, userId: number, token: string): Promise<string> {
  await sql(
    databaseUrl,
    `INSERT INTO mailed_tokens (user_id, kind, token_hash, expires_at)
     VALUES ($1, $2, $3, now() + interval '1 hour')`,
    [userId, kind, hashOneTimeToken(token)],
  );
  return token;
}

export function redeem(
  target: Target,
  token: string,
  password = 'an analytical engine',
  headers: Record<string, string> = {},
) {
  return call(target, 'POST /api/auth/password-reset', {
    payload: { reset_token: token, password },
    headers,
  });
}
