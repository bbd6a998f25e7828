import { test } from 'tap';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeBudget } from '../../../src/domain/limits/budget.ts';
import type { Attempt } from '../../../src/domain/limits/limit-attempts.ts';

const allowance = { count: 2, seconds: 60 };
const user = { limit: 'llt_budget', allowance } as const;
const network = { limit: 'llt_network', allowance } as const;

/** What a budget asks the limits for. */
async function asked(
  limits: Parameters<typeof makeBudget>[1],
  holder: { userId?: number; network?: string | null },
): Promise<Attempt> {
  const attempts: Attempt[] = [];
  const spend = makeBudget((attempt, task) => {
    attempts.push(attempt);
    return task(0);
  }, limits);
  await spend(holder, NO_REQUEST, () => Promise.resolve());
  const [attempt] = attempts;
  if (!attempt) throw new Error('nothing was asked');
  return attempt;
}

test('a budget counts for the user and the network that it limits and the caller has', async (t) => {
  const ofUser = { ...user, key: '7', subject: { userId: 7 } };
  const ofNetwork = { ...network, key: 'home', subject: { network: 'home' } };
  const caller = { userId: 7, network: 'home' };
  t.strictSame((await asked({ user, network }, caller)).counters, [ofUser, ofNetwork], 'the user first');
  t.strictSame((await asked({ user }, caller)).counters, [ofUser]);
  t.strictSame((await asked({ network }, caller)).counters, [ofNetwork]);
  t.strictSame((await asked({ user, network }, { network: null })).counters, []);
});

test('a refusal does not count, unless it tells that a name is taken', async (t) => {
  const { counts } = await asked({ user }, { userId: 7 });
  const errors = [
    null,
    new TypeError('a fault'),
    new AuthError('username_taken'),
    new AuthError('email_taken'),
    new AuthError('external_id_taken'),
  ];
  for (const error of errors) t.equal(counts(error), true, String(error));
  t.equal(counts(new AuthError('too_many_tokens')), false);
});
