import type { Audit, AuditLimit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError } from '../errors.ts';
import { fieldError, parseLoginName, parseTry } from '../identifiers.ts';
import { MAIL_WINDOW, type MailKind, type TokenKind } from '../mail-kinds.ts';
import type { Observe } from '../metrics/observe.ts';
import type { GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import {
  hashOneTimeToken,
  newResetToken,
  newVerificationToken,
  type RandomBytes,
} from '../passwords/one-time-token.ts';
import type { Caller } from '../principal.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { FinishUserChange } from '../users/finish-user-change.ts';
import type { InvitationObstacle, MailStore, TakenMail } from './wanted-mail.ts';

/** The longest address that is read, as at login. */
const ADDRESS_MAX_LENGTH = 254;

interface MailsPorts {
  mails: Pick<
    MailStore,
    'wantVerification' | 'wantInvitation' | 'take' | 'settle' | 'markUndeliverable' | 'verify'
  >;
  tokenStates: Pick<TokenStateStore, 'now'>;
  finishUserChange: FinishUserChange;
  observe: Pick<Observe, 'mail'>;
  limitGuess: LimitGuess;
  randomBytes: RandomBytes;
  audit: Audit;
  auditLimit: AuditLimit;
}

export interface VerificationRequest {
  verificationToken: string;
  origin: GuessOrigin;
  from: Sourced;
}

export type Mails = ReturnType<typeof makeMails>;

/** The proof of addresses in force, and the mails that a mailer takes. */
export function makeMails(ports: MailsPorts) {
  const { mails, tokenStates, finishUserChange, limitGuess, randomBytes, observe, audit, auditLimit } = ports;
  const makeToken: Record<TokenKind, (randomBytes: RandomBytes) => string> = {
    password_reset: newResetToken,
    invitation: newResetToken,
    email_verification: newVerificationToken,
    email_change: newVerificationToken,
  };

  /** @throws AuthError `rate_limited` if the account has had its mails of the kind */
  function requireFree(freeIn: number, userId: number, from: Sourced): void {
    if (freeIn <= 0) return;
    const windowSeconds = MAIL_WINDOW / 1000;
    auditLimit(`mails:${userId}`, { event: 'limit.reached', limit: 'mails', windowSeconds, userId }, from);
    throw new AuthError('rate_limited', { retryAfter: Math.ceil(freeIn / 1000), reason: 'mails' });
  }

  return {
    /**
     * Wants a mail that proves the caller's address.
     * @returns whether one is wanted: false if the address is proved already.
     * @throws AuthError `token_not_allowed` (an LLT), `invalid_token`, `rate_limited`, `unavailable`
     */
    requestVerification: async ({ user, tokenId, type }: Caller, from: Sourced): Promise<boolean> => {
      if (type !== 'access') throw new AuthError('token_not_allowed');
      const { isVerified, freeIn } = await mails.wantVerification({ userId: user.id, tokenId });
      requireFree(freeIn, user.id, from);
      return !isVerified;
    },

    /**
     * Wants the mail again with which the user of a new account sets the first password.
     * @param service holds `users.write`.
     * @returns why none is wanted; null if one is.
     * @throws AuthError `user_unknown`, `rate_limited`, `unavailable`
     */
    invite: async (
      userId: number,
      { serviceId }: ServiceIdentity,
      from: Sourced,
    ): Promise<InvitationObstacle | null> => {
      const invited = await mails.wantInvitation(userId);
      if (!invited) throw new AuthError('user_unknown');
      requireFree(invited.freeIn, userId, from);
      if (invited.obstacle === null) audit({ event: 'user.invited_by_client', userId, serviceId }, from);
      return invited.obstacle;
    },

    /**
     * Redeems the token of a mail to the address in force. A repeat is safe.
     * @throws AuthError `invalid_verification_token`, `rate_limited`, `unavailable`
     */
    verify: async ({ verificationToken, origin, from }: VerificationRequest): Promise<void> => {
      const tokenHash = hashOneTimeToken(verificationToken);
      const failure = () => ({ event: 'email.verification_failed' }) as const;
      const guess = { name: null, account: null, origin, from, failure };
      const { user, isNew, isPending } = await limitGuess(guess, async () => {
        // Fails here if the fast store is down, before the token is used up.
        await tokenStates.now();
        const verified = await mails.verify(tokenHash);
        if (verified === null) throw new AuthError('invalid_verification_token');
        return verified;
      });
      if (isNew) audit({ event: 'email.verified', userId: user.id }, from);
      if (isPending) await finishUserChange(user);
    },

    /**
     * Takes the mails that have waited longest.
     * @param kinds those that the mailer knows.
     * @throws AuthError `unavailable`
     */
    take: async (
      { limit, kinds }: { limit: number; kinds: readonly MailKind[] },
      { serviceId }: ServiceIdentity,
      from: Sourced,
    ): Promise<TakenMail[]> => {
      const taken = await mails.take(limit, kinds, (kind) => makeToken[kind](randomBytes));
      for (const { user, kind } of taken) {
        audit({ event: 'mail.taken', userId: user.id, serviceId, kind }, from);
        observe.mail(kind, 'taken');
      }
      return taken;
    },

    /** A mail was handed over. @throws AuthError `unavailable` */
    settle: async (id: number): Promise<void> => {
      const kind = await mails.settle(id);
      if (kind) observe.mail(kind, 'settled');
    },

    /**
     * A mail server has refused an address for good. Mails have gone by the time that it says so, so the address names
     * what is meant. The answer is the same for every address.
     * @throws AuthError `validation_failed`, `rate_limited`, `unavailable`
     */
    reportUndeliverable: async (
      email: string,
      { serviceId }: ServiceIdentity,
      from: Sourced,
    ): Promise<void> => {
      const tried = parseTry(email, ADDRESS_MAX_LENGTH);
      if (!tried.ok) throw new AuthError('validation_failed', { errors: [fieldError('/email', tried)] });
      const name = parseLoginName(email);
      // No account has it.
      if (!name || !('email' in name)) return;
      // Fails here if the fast store is down, before anything is written.
      await tokenStates.now();
      for (const { user, isInForce, isNews, settled } of await mails.markUndeliverable(name.email)) {
        for (const kind of settled) observe.mail(kind, 'undeliverable');
        const of = isInForce ? 'in_force' : 'pending';
        if (isNews) audit({ event: 'email.undeliverable', userId: user.id, serviceId, address: of }, from);
        // Also if nothing has changed: an earlier try may have failed here.
        if (isInForce) await finishUserChange(user);
      }
    },
  };
}
