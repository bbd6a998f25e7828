import type { Ids, TokenSurvey } from '../infra/postgres/recover.ts';
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

/** What the stores remember of the sessions and long-lived tokens that have ended since the backup. */
export interface KnownEnds extends TokenSurvey {
  /** For how long Redis remembers an end: twice SESSION_CACHE_TTL, in milliseconds. */
  limit: number;
  /** Whether Redis holds any token. */
  hasTokens: boolean;
}

/**
 * Redis alone knows what has ended since the backup, and forgets it. What it has forgotten would be good again.
 * @param now milliseconds since 1970.
 * @param state of the stores, for the message.
 * @throws CommandError if it may have forgotten something.
 */
export function requireKnownEnds(ends: KnownEnds, now: number, state: string): void {
  const { newest, sessions, longLived, limit, hasTokens } = ends;
  if (sessions + longLived === 0 || (hasTokens && now - newest <= limit)) return;
  const lines = [
    `Ended sessions could be good again: recover cannot tell which of the ${sessions} sessions and ${longLived} long-lived \
tokens in the database have ended since the backup.`,
    newestLine(newest, now),
    hasTokens
      ? `Redis remembers for ${span(limit)} what has ended (twice SESSION_CACHE_TTL).`
      : 'Redis holds no token: it has lost its data, or none was used lately.',
    'Give --end-all to end them all, so that every user logs in again, or --keep-sessions to let them all be good.',
    'If the service was idle, the backup may be newer than that use: then --keep-sessions is right.',
    state,
  ];
  const message = lines.join('\n');
  throw new CommandError(message, {
    newest: timeOf(newest),
    limit: limit / 1000,
    sessions,
    long_lived: longLived,
  });
}

/** The newest use of a token on record. @returns null if there is none. */
export function timeOf(newest: number): string | null {
  return newest === 0 ? null : new Date(newest).toISOString();
}

function newestLine(newest: number, now: number): string {
  const time = timeOf(newest);
  if (time === null) return 'There is no record of a session or token that was used before now.';
  return `The newest use of a session or token on record was at ${time}, ${span(now - newest)} ago.`;
}

/** @param length milliseconds. */
function span(length: number): string {
  const minutes = Math.floor(length / 60_000);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** For the operator, before the question. */
export function describePlan(plan: RecoveryPlan, { newest }: KnownEnds, now: number, all: boolean): string {
  const lines = [
    ...idLines(plan),
    newestLine(newest, now),
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
