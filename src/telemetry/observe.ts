import type { ErrorCode } from '../domain/errors.ts';
import type { RefusalReason } from '../domain/refusal-reasons.ts';
import type { Observe as ObserveDomain } from '../domain/metrics/observe.ts';
import type { PostgresFailure, Statement, StoreFailure, StoreOperation, Task } from './outcomes.ts';

/**
 * Everything that use cases, the HTTP layer and the stores report to the metrics. Uncommon methods share one label, and
 * a route is a pattern. Times are in seconds.
 */
export interface Observe extends ObserveDomain {
  requestBegan(): void;
  requestEnded(method: string, route: string | undefined, status: number, seconds: number): void;
  /** An error was answered. */
  error(code: ErrorCode, reason: RefusalReason | null): void;
  /** A login or signup was refused because the event loop is late. */
  late(): void;

  redisAnswered(operation: StoreOperation, seconds: number): void;
  redisFailed(reason: StoreFailure): void;
  statementAnswered(statement: Statement, seconds: number): void;
  connectionAcquired(seconds: number): void;
  postgresFailed(reason: PostgresFailure): void;
  taskEnded(task: Task, succeeded: boolean): void;
  /** Events of the audit trail could not be written. */
  auditLost(events: number): void;
}
