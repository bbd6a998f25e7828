import { randomBytes } from 'node:crypto';
import { hashResetToken, newResetToken } from '../../src/domain/passwords/reset-token.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { issueReset } from '../../src/infra/postgres/password-resets.ts';
import { call, type Target } from './client.ts';

/** Does the work of `latchkey user reset` without a process. @returns the token. */
export async function aReset(databaseUrl: string, userId: number, ttl = 1800): Promise<string> {
  const token = newResetToken(randomBytes);
  const postgres = makePostgres({ url: databaseUrl, pool: 1, timeout: 5000, observe: null });
  try {
    const issued = await issueReset(postgres.prisma, { id: userId }, hashResetToken(token), ttl);
    if (!issued) throw new Error(`there is no user ${userId}`);
  } finally {
    await postgres.close();
  }
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
