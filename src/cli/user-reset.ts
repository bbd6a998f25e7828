import type { AccountKey } from '../domain/identifiers.ts';
import { randomBytes } from 'node:crypto';
import { loadConfig, NO_HASHES, type Environment } from '../config/config.ts';
import { hashResetToken, newResetToken } from '../domain/passwords/reset-token.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { issueReset } from '../infra/postgres/password-resets.ts';
import type { Outcome } from './command.ts';

/**
 * `latchkey user reset`: makes a reset token in place of an earlier one, and shows it once.
 * @returns null if there is no such user.
 */
export async function resetUser(
  prisma: PrismaClient,
  user: AccountKey,
  { PASSWORD_RESET_TTL }: Environment,
): Promise<Outcome | null> {
  const config = loadConfig({ PASSWORD_RESET_TTL }, NO_HASHES);
  const token = newResetToken(randomBytes);
  const issued = await issueReset(prisma, user, hashResetToken(token), config.PASSWORD_RESET_TTL);
  if (!issued) return null;
  const { userId, disabled } = issued;
  const expiresAt = new Date(issued.expiresAt).toISOString();
  return {
    result: { user: userId, reset_token: token, expires_at: expiresAt, disabled },
    text: [
      `reset_token  ${token}`,
      `expires_at   ${expiresAt}`,
      'The token will not be shown again. It sets a new password once: POST /api/auth/password-reset.',
      ...(disabled ? ['The account is disabled, and a reset does not enable it.'] : []),
    ].join('\n'),
    audited: { userId, disabled },
  };
}
