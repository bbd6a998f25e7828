import type { Sourced } from '../audit/source.ts';
import { AuthError } from '../errors.ts';
import { byRenewed } from '../limits/counter-keys.ts';
import type { LimitAttempt } from '../limits/limit-attempts.ts';
import type { Allowance } from '../limits/ports.ts';
import { deviceOf, type GuessOrigin } from '../passwords/guessing-limits.ts';
import type { SecondStepAccount } from './ports.ts';

/** A code that somebody gives who knows the password. */
export interface CodeGuess {
  account: Pick<SecondStepAccount, 'userId' | 'passwordVersion' | 'knownCallers'>;
  origin: GuessOrigin;
  from: Sourced;
}

/**
 * Limits how many codes may be tried for one account: six digits alone would fall within days. As with passwords, a slot
 * is taken before the code is compared, and a known device has an allowance of its own, so that a stranger who knows the
 * password cannot lock the owner out. But only a device that has passed both steps is known: a thief of the password may
 * have opened sessions and created long-lived tokens before the factor was added.
 *
 * These allowances belong to a version of the password, so an owner who changes a stolen password has all tries again.
 * All wrong codes of the account count together besides, since who changes the password again and again, or makes known
 * devices with a leaked refresh token secret, would have new tries without end.
 * @param allowance RATE_LIMIT_FACTOR; null for none.
 */
export function makeCodeLimits(limitAttempt: LimitAttempt, allowance: Allowance | null) {
  /**
   * Checks a code within the limits. Only a wrong one counts.
   * @throws AuthError `rate_limited`, `unavailable`, and the errors of the check
   */
  return function limitCode<Result>(
    { account, origin, from }: CodeGuess,
    check: () => Promise<Result>,
  ): Promise<Result> {
    const { userId, passwordVersion } = account;
    const token = origin.token?.type === 'refresh' && origin.token.withFactor ? origin.token : null;
    const device = deviceOf(account, { ...origin, token });
    const limit = device === null ? 'factor' : 'factor_device';
    const counter = byRenewed(limit, `${device ?? userId} ${passwordVersion}`, userId, allowance);
    const event = () => ({ event: 'factor.refused', userId, method: 'totp' }) as const;
    const failure = { event, network: origin.network };
    return limitAttempt({ counters: [counter], from, counts: isWrongCode, failure }, check);
  };
}

export type LimitCode = ReturnType<typeof makeCodeLimits>;

/** An error that is no refusal of ours may come after the comparison: it counts as a wrong code. */
export function isWrongCode(error: unknown): boolean {
  return error !== null && !(error instanceof AuthError && error.code !== 'invalid_second_factor');
}
