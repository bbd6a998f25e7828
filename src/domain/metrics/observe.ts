import type { AuditEvent } from '../audit/event.ts';
import type { ErrorCode } from '../errors.ts';
import type {
  FeedEnd,
  FeedSnapshotReason,
  HashRejection,
  IntrospectionOutcome,
  PostgresFailure,
  ReadThroughOutcome,
  RedisCommand,
  RedisFailure,
  RefreshOutcome,
  SignUpRefusal,
  Statement,
  Task,
  TokenRefusal,
  VerifyOutcome,
} from './outcomes.ts';

/**
 * What everything that serves tells the metrics, beside `audit`: plain functions that allocate nothing, since refresh and
 * verify call them. No argument is ever what a client sent; a method is folded, a route is a pattern. Times in seconds.
 */
export interface Observe {
  requestBegan(): void;
  requestEnded(method: string, route: string | undefined, status: number, seconds: number): void;
  /** An error was answered. */
  error(code: ErrorCode): void;
  rateLimited(limit: 'login' | 'signup'): void;
  /** A login or signup was refused because the event loop is late. */
  late(): void;

  /** Logins, signups, tokens created and revoked: what `audit` is told. */
  audited(event: AuditEvent): void;
  signUpRefused(reason: SignUpRefusal): void;
  refresh(outcome: RefreshOutcome): void;
  verification(type: 'access' | 'llt', outcome: VerifyOutcome): void;
  introspection(outcome: IntrospectionOutcome): void;
  tokenRefused(reason: TokenRefusal): void;
  readThrough(outcome: ReadThroughOutcome): void;

  hashBegan(waited: number): void;
  hashEnded(seconds: number): void;
  hashRejected(reason: HashRejection): void;

  redisAnswered(command: RedisCommand, seconds: number): void;
  redisFailed(reason: RedisFailure): void;
  statementAnswered(statement: Statement, seconds: number): void;
  connectionAcquired(seconds: number): void;
  postgresFailed(reason: PostgresFailure): void;
  taskEnded(task: Task, succeeded: boolean): void;

  /** So many events were added to the feed of revocations. */
  feedPublished(count: number): void;
  feedSnapshot(reason: FeedSnapshotReason): void;
  feedEnded(reason: FeedEnd): void;
}

const nothing = (): void => undefined;

/** For commands, and for tests that look at something else. */
export const UNOBSERVED: Observe = {
  requestBegan: nothing,
  requestEnded: nothing,
  error: nothing,
  rateLimited: nothing,
  late: nothing,
  audited: nothing,
  signUpRefused: nothing,
  refresh: nothing,
  verification: nothing,
  introspection: nothing,
  tokenRefused: nothing,
  readThrough: nothing,
  hashBegan: nothing,
  hashEnded: nothing,
  hashRejected: nothing,
  redisAnswered: nothing,
  redisFailed: nothing,
  statementAnswered: nothing,
  connectionAcquired: nothing,
  postgresFailed: nothing,
  taskEnded: nothing,
  feedPublished: nothing,
  feedSnapshot: nothing,
  feedEnded: nothing,
};
