import type { Caller, Principal } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { fieldError } from '../identifiers.ts';
import { byRenewed } from '../limits/counter-keys.ts';
import type { LimitAttempt } from '../limits/limit-attempts.ts';
import type { Allowance } from '../limits/ports.ts';
import type { RandomBytes } from '../passwords/one-time-token.ts';
import { isWrongCode } from './code-limits.ts';
import type { FactorCaller, FactorList, FactorStore, SecretBox, TotpRecord } from './ports.ts';
import type { FactorChangeRequest, Proven } from './proven.ts';
import { makeRecoveryCodes } from './recovery-codes.ts';
import { otpauthUri, readCode, SECRET_BYTES, stepOf, toBase32 } from './totp.ts';

interface OwnFactorsPorts {
  factors: Pick<FactorStore, 'list' | 'setUp' | 'findUnconfirmed' | 'confirm' | 'replaceCodes' | 'remove'>;
  secrets: SecretBox;
  proven: Proven;
  limitAttempt: LimitAttempt;
  /** RATE_LIMIT_FACTOR; null for none. */
  allowance: Allowance | null;
  /** FACTOR_ISSUER. */
  issuer: string;
  randomBytes: RandomBytes;
  clock: Clock;
  audit: Audit;
}

/** Where a code came from. */
interface CodeSource {
  from: Sourced;
  /** null if it is not counted. */
  network: string | null;
}

/** A new TOTP, to be shown once. */
export interface NewTotp {
  /** In base32. */
  secret: string;
  otpauthUri: string;
}

/**
 * What users do with their own second factors. Each change throws AuthError `token_not_allowed` (the caller presents an
 * LLT), `login_too_old` (the account has a factor, and the caller's session was opened without one, or longer than
 * FACTOR_LOGIN_MAX_AGE ago), `invalid_token` (that session has ended meanwhile), `rate_limited`, `unavailable`; with a
 * password also `validation_failed`, `invalid_credentials`, `overloaded`.
 */
export function makeOwnFactors(ports: OwnFactorsPorts) {
  const { factors, secrets, proven, randomBytes, clock, audit } = ports;

  /**
   * Each set-up has an allowance of its own, since it takes the password: a thief of the session who uses it up does not
   * keep the owner from another one. A thief of the password too could make set-ups, each with a counter in Redis, without
   * end: so those of the account count together besides.
   */
  function limitCodes<Result>(
    { userId, tokenId: by }: FactorCaller,
    { id }: TotpRecord,
    { from, network }: CodeSource,
    check: () => Promise<Result>,
  ): Promise<Result> {
    const { allowance } = ports;
    const counter = byRenewed('factor_setup', String(id), userId, allowance);
    const event = () => ({ event: 'factor.not_confirmed', userId, by }) as const;
    const failure = { event, network };
    return ports.limitAttempt({ counters: [counter], from, counts: isWrongCode, failure }, check);
  }

  return {
    /** @throws AuthError `invalid_token` (the account is gone), `unavailable` */
    async list({ user }: Pick<Principal, 'user'>): Promise<FactorList> {
      const list = await factors.list(user.id);
      if (!list) throw new AuthError('invalid_token', { reason: 'gone' });
      return list;
    },

    /**
     * Sets a TOTP up, in place of one that was not confirmed. It counts for nothing until it is confirmed.
     * @throws AuthError also `factors_disabled`, `email_not_verified` (EMAIL_VERIFICATION is set)
     */
    async setUpTotp(caller: Caller, request: FactorChangeRequest): Promise<NewTotp> {
      const key = proven.caller(caller);
      if (!secrets.canSeal) throw new AuthError('factors_disabled');
      const { user, passwordVersion } = await proven.password(caller, request);
      const secret = randomBytes(SECRET_BYTES);
      const sealed = secrets.seal(user.id, secret);
      await factors.setUp(key, { sealed, createdAt: clock.now(), passwordVersion });
      return { secret: toBase32(secret), otpauthUri: otpauthUri(secret, ports.issuer, user.username) };
    },

    /**
     * Confirms the TOTP that the caller's session has set up, in place of the earlier one.
     * @returns recovery codes, to be shown once, with the account's first factor; else null.
     * @param text the code, as the user has typed it.
     * @throws AuthError also `invalid_second_factor`, if there is nothing to confirm too; `validation_failed` for what is no
     * code, which counts as no try; `email_not_verified`
     */
    async confirmTotp(
      caller: Caller,
      text: string,
      source: CodeSource,
    ): Promise<{ id: number; recoveryCodes: string[] | null }> {
      const key = proven.caller(caller);
      const { userId, tokenId: by } = key;
      const code = readCode(text);
      if (!code.ok) throw new AuthError('validation_failed', { errors: [fieldError('/code', code)] });
      const totp = await factors.findUnconfirmed(key);
      if (!totp) throw new AuthError('invalid_second_factor');
      const { codes, codeHashes } = makeRecoveryCodes(randomBytes);
      const { isFirst } = await limitCodes(key, totp, source, async () => {
        const at = clock.now();
        const step = stepOf(secrets.open(userId, totp.sealed), code.value, at);
        const confirmed =
          step === null ? null : await factors.confirm(key, { factorId: totp.id, step, at, codeHashes });
        if (confirmed) return confirmed;
        throw new AuthError('invalid_second_factor');
      });
      audit({ event: 'factor.added', userId, by, factorId: totp.id, type: 'totp' }, source.from);
      return { id: totp.id, recoveryCodes: isFirst ? codes : null };
    },

    /** Replaces the recovery codes. @returns the new ones, to be shown once. @throws AuthError also `factor_unknown` */
    async replaceRecoveryCodes(caller: Caller, request: FactorChangeRequest): Promise<string[]> {
      const key = proven.caller(caller);
      const { passwordVersion } = await proven.password(caller, request);
      const { codes, codeHashes } = makeRecoveryCodes(randomBytes);
      if (!(await factors.replaceCodes(key, { codeHashes, passwordVersion })))
        throw new AuthError('factor_unknown');
      const { userId, tokenId: by } = key;
      audit({ event: 'recovery_codes.replaced', userId, by }, request.from);
      return codes;
    },

    /** Removes a confirmed factor; the last one takes the recovery codes with it. @throws AuthError also `factor_unknown` */
    async remove(caller: Caller, factorId: number, request: FactorChangeRequest): Promise<void> {
      const key = proven.caller(caller);
      const { passwordVersion } = await proven.password(caller, request);
      if (!(await factors.remove(key, { id: factorId, passwordVersion })))
        throw new AuthError('factor_unknown');
      const { userId, tokenId: by } = key;
      audit({ event: 'factor.removed', userId, by, factorId }, request.from);
    },
  };
}

export type OwnFactors = ReturnType<typeof makeOwnFactors>;
