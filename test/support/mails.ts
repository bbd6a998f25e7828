import type { MailKind, NoticeEvent } from '../../src/domain/mail-kinds.ts';
import type { TestApp } from './app.ts';
import { managerOf } from './accounts.ts';
import { call, type Pair } from './client.ts';
import { aRegisteredService } from './registered-service.ts';
import { sql } from './sql.ts';

/** As Latchkey returns it to a mailer. */
export interface Mail {
  id: number;
  kind: MailKind;
  email: string;
  verified: boolean;
  /** A notice has an event instead. */
  token: string;
  expires_at: string;
  event?: NoticeEvent;
  at?: string;
  locale: string | null;
  user: Pair['user'];
}

/** A service that takes mails and settles them. */
export async function aMailer(target: TestApp, name = 'mailer') {
  const ask = managerOf(target, await aRegisteredService(target.databaseUrl, name, ['mails']));
  return {
    ask,
    /** @param kinds those of a mailer that names none, by default. */
    async take(limit?: number, kinds?: readonly MailKind[]): Promise<Mail[]> {
      const response = await ask('POST /api/users/mails', {
        ...(limit !== undefined && { limit }),
        ...(kinds && { kinds }),
      });
      if (response.statusCode !== 200) throw new Error(`no mails: ${response.body}`);
      return response.json<{ mails: Mail[] }>().mails;
    },
    settle: (id: number) => ask(`DELETE /api/users/mails/${id}`),
    undeliverable: (email: string) => ask('POST /api/users/mails/undeliverable', { email }),
  };
}

export function requestReset(target: TestApp, username: string, headers: Record<string, string> = {}) {
  return call(target, 'POST /api/auth/password-reset-request', { payload: { username }, headers });
}

/** Does the look-ups that a replica does every second. */
export function lookUp({ composition }: TestApp): Promise<void> {
  return composition.app.useCases.resetRequests.work();
}

/** Wants the reset of an account, as a page does. */
export async function wantReset(target: TestApp, username: string): Promise<void> {
  await requestReset(target, username);
  await lookUp(target);
}

export function verifyEmail(target: TestApp, token: string, headers: Record<string, string> = {}) {
  return call(target, 'POST /api/auth/email-verification', {
    payload: { verification_token: token },
    headers,
  });
}

/** Proves the pending address, as a page does in the session of a token. */
export function changeEmail(
  target: TestApp,
  token: string,
  verificationToken: string,
  headers: Record<string, string> = {},
) {
  return call(target, 'POST /api/user/email', {
    token,
    payload: { verification_token: verificationToken },
    headers,
  });
}

/** Makes every mail and token older than it is. */
export async function letPass(databaseUrl: string, seconds: number): Promise<void> {
  for (const [table, ...columns] of [
    ['wanted_mails', 'wanted_at', 'taken_at', 'settled_at'],
    ['password_resets', 'expires_at'],
    ['mailed_tokens', 'expires_at', 'used_at'],
  ]) {
    const earlier = columns.map((column) => `${column} = ${column} - interval '${seconds} seconds'`);
    await sql(databaseUrl, `UPDATE ${table} SET ${earlier.join(', ')}`);
  }
}
