import type { Sourced } from '../audit/source.ts';
import { AuthError, type ErrorCode } from '../errors.ts';
import type { LimitAttempt } from './limit-attempts.ts';
import type { Allowance } from './ports.ts';

const TELLING: ErrorCode[] = ['username_taken', 'email_taken'];

/**
 * Limits how often an operation may succeed for one user or network. For operations that leave something in the stores:
 * a loop must not fill them. A refused operation leaves nothing, so it does not count, unless it tells that a name is
 * taken: a search for names is limited too.
 * @param allowance null for no limit.
 */
export function makeBudget(
  limitAttempt: LimitAttempt,
  limit: 'llt_budget' | 'profile_budget' | 'signup_network',
  allowance: Allowance | null,
) {
  /** @throws AuthError `rate_limited`, `unavailable`, and the errors of the task */
  return function spend<Result>(
    holder: { userId: number } | { network: string },
    from: Sourced,
    task: () => Promise<Result>,
  ): Promise<Result> {
    const key = 'userId' in holder ? String(holder.userId) : holder.network;
    const counts = (error: unknown) => !(error instanceof AuthError) || TELLING.includes(error.code);
    return limitAttempt({ counters: [{ limit, key, allowance, subject: holder }], from, counts }, task);
  };
}

export type Budget = ReturnType<typeof makeBudget>;
