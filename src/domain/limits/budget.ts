import type { Sourced } from '../audit/source.ts';
import { AuthError, type ErrorCode } from '../errors.ts';
import { byAccount, byNetwork, type Counted, type LimitBy } from './counter-keys.ts';
import type { LimitAttempt } from './limit-attempts.ts';
import type { Allowance } from './ports.ts';

const TELLING: ErrorCode[] = ['username_taken', 'email_taken', 'external_id_taken'];

interface BudgetLimits {
  user?: { limit: LimitBy<'account'>; allowance: Allowance | null };
  network?: { limit: LimitBy<'network'>; allowance: Allowance | null };
}

/**
 * Limits how often an operation may succeed for one user and network. For operations that leave something in the stores:
 * a loop must not fill them. A refused operation leaves nothing, so it does not count, unless it tells that a name is
 * taken: a search for names is limited too.
 */
export function makeBudget(limitAttempt: LimitAttempt, { user, network }: BudgetLimits) {
  /**
   * @param holder its network is null if it is not counted.
   * @throws AuthError `rate_limited`, `unavailable`, and the errors of the task
   */
  return function spend<Result>(
    holder: { userId?: number; network?: string | null },
    from: Sourced,
    task: () => Promise<Result>,
  ): Promise<Result> {
    const counters: Counted[] = [];
    // The user first: a loop over a used budget must not hold slots of its network, not even for a moment.
    if (user && holder.userId !== undefined)
      counters.push(byAccount(user.limit, holder.userId, user.allowance));
    if (network && typeof holder.network === 'string')
      counters.push(byNetwork(network.limit, holder.network, network.allowance));
    const counts = (error: unknown) => !(error instanceof AuthError) || TELLING.includes(error.code);
    return limitAttempt({ counters, from, counts, failure: null }, task);
  };
}

export type Budget = ReturnType<typeof makeBudget>;
