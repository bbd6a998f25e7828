import type { Ids } from '../infra/postgres/recover.ts';
import { CommandError } from './command.ts';
import { UsageError } from './arguments.ts';

/** The last id that PostgreSQL assigned, the highest one that Redis knows, and the one after which ids go on. */
interface IdPlan {
  postgres: number;
  redis: number;
  after: number;
}

/** What `recover` does with the ids of users and tokens. */
export type RecoveryPlan = Record<keyof Ids, IdPlan>;

/** @throws UsageError */
export function readSkipIds(value: string): number {
  const skip = Number(value);
  if (/^\d+$/.test(value) && skip > 0 && Number.isSafeInteger(skip)) return skip;
  throw new UsageError('--skip-ids takes a number above 0');
}

/** @throws CommandError if an id that Redis knows would be assigned again. */
export function planRecovery(postgres: Ids, redis: Ids, skip: number): RecoveryPlan {
  const missing = Math.max(redis.users - postgres.users, redis.tokens - postgres.tokens);
  const plan = {
    users: { postgres: postgres.users, redis: redis.users, after: postgres.users + skip },
    tokens: { postgres: postgres.tokens, redis: redis.tokens, after: postgres.tokens + skip },
  };
  if (missing > skip) {
    const message = `${idLines(plan).join('\n')}
Redis knows ids that would be assigned again: give --skip-ids ${missing + skip}. Nothing has changed`;
    throw new CommandError(message, { ids: plan });
  }
  if (!Number.isSafeInteger(Math.max(plan.users.after, plan.tokens.after)))
    throw new CommandError('--skip-ids leaves no ids below 2^53: give less. Nothing has changed', {
      ids: plan,
    });
  return plan;
}

/** For the operator, before the question. */
export function describePlan(plan: RecoveryPlan, all: boolean): string {
  const lines = [
    ...idLines(plan),
    'recover will change both stores, and cannot be undone:',
    `- ids go on after ${plan.users.after} (users) and ${plan.tokens.after} (tokens)`,
    '- tokens that Redis knows as revoked are revoked in the database again',
    '- tokens that Redis knows and the database does not are ended',
    '- tokens of services are ended: each gets a new one when it is refused',
    ...(all ? ['- every other session and long-lived token is ended too (--end-all)'] : []),
  ];
  return lines.join('\n');
}

function idLines({ users, tokens }: RecoveryPlan): string[] {
  return [
    `highest user id: ${users.postgres} in PostgreSQL, ${users.redis} in Redis`,
    `highest token id: ${tokens.postgres} in PostgreSQL, ${tokens.redis} in Redis`,
  ];
}
