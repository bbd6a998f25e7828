import type { Audit, AuditLimit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError } from '../errors.ts';
import type { MailKind } from '../mail-kinds.ts';
import type { GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import {
  hashOneTimeToken,
  newResetToken,
  newVerificationToken,
  type RandomBytes,
} from '../passwords/one-time-token.ts';
import type { Caller, Principal } from '../principal.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import type { AccountStore, Address } from '../users/account.ts';
import { MAIL_WANTED, type MailStore, type TakenMail } from './wanted-mail.ts';

interface MailsPorts {
  mails: Pick<MailStore, 'wantVerification' | 'take' | 'settle' | 'verify'>;
  accounts: Pick<AccountStore, 'address'>;
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

/** Addresses and their proof, and the mails that a mailer takes. */
export function makeMails({ mails, accounts, limitGuess, randomBytes, audit, auditLimit }: MailsPorts) {
  const makeToken: Record<MailKind, (randomBytes: RandomBytes) => string> = {
    password_reset: newResetToken,
    email_verification: newVerificationToken,
  };

  return {
    /** The caller's own. @throws AuthError `token_not_allowed` (an LLT), `invalid_token`, `unavailable` */
    ownAddress: async ({ user, type }: Pick<Principal, 'user' | 'type'>): Promise<Address> => {
      if (type !== 'access') throw new AuthError('token_not_allowed');
      const address = await accounts.address(user.id);
      if (!address) throw new AuthError('invalid_token', { reason: 'gone' });
      return address;
    },

    /**
     * Wants a mail that proves the caller's address.
     * @returns whether one is wanted: false if the address is proved already.
     * @throws AuthError `token_not_allowed` (an LLT), `invalid_token`, `rate_limited`, `unavailable`
     */
    requestVerification: async ({ user, tokenId, type }: Caller, from: Sourced): Promise<boolean> => {
      if (type !== 'access') throw new AuthError('token_not_allowed');
      const { isVerified, freeIn } = await mails.wantVerification({ userId: user.id, tokenId });
      if (freeIn > 0) {
        const limited = `mails:${user.id}`;
        const windowSeconds = MAIL_WANTED / 1000;
        auditLimit(limited, { event: 'limit.reached', limit: 'mails', windowSeconds, userId: user.id }, from);
        throw new AuthError('rate_limited', { retryAfter: Math.ceil(freeIn / 1000), reason: 'mails' });
      }
      return !isVerified;
    },

    /** Redeems the token of a mail. @throws AuthError `invalid_verification_token`, `rate_limited`, `unavailable` */
    verify: async ({ verificationToken, origin, from }: VerificationRequest): Promise<void> => {
      const tokenHash = hashOneTimeToken(verificationToken);
      const failure = () => ({ event: 'email.verification_failed' }) as const;
      const userId = await limitGuess({ name: null, account: null, origin, from, failure }, async () => {
        const verified = await mails.verify(tokenHash);
        if (verified === null) throw new AuthError('invalid_verification_token');
        return verified;
      });
      audit({ event: 'email.verified', userId }, from);
    },

    /** Takes the mails that have waited longest. @throws AuthError `unavailable` */
    take: async (limit: number, { serviceId }: ServiceIdentity, from: Sourced): Promise<TakenMail[]> => {
      const taken = await mails.take(limit, (kind) => makeToken[kind](randomBytes));
      for (const { user, kind } of taken)
        audit({ event: 'mail.taken', userId: user.id, serviceId, kind }, from);
      return taken;
    },

    /** A mail was handed over. @throws AuthError `unavailable` */
    settle: (id: number): Promise<void> => mails.settle(id),
  };
}
