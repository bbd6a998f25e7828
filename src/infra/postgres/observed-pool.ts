import { AsyncResource } from 'node:async_hooks';
import pg from 'pg';
import type { Observe } from '../../telemetry/observe.ts';
import type { Span, Tracer } from '../../telemetry/tracer.ts';
import type { PostgresFailure, Statement } from '../../telemetry/outcomes.ts';
import type { Cause } from '../../telemetry/store-cause.ts';
import { causeOf } from './cause.ts';
import { failureOfState } from './failures.ts';
import { BEGIN } from './session-settings.ts';

export type ObservePostgres = Pick<Observe, 'statementAnswered' | 'connectionAcquired' | 'postgresFailed'>;

/** Hears whether the server works, and why not. */
export interface WatchPostgres {
  failed: (cause: Cause) => void;
  works: () => void;
}

type Callback = (error: Error | undefined, result: unknown, release?: unknown) => void;

/** A pool that measures the wait for a connection. */
export function makeObservedPool(
  config: pg.PoolConfig,
  observe: ObservePostgres | null,
  watch: WatchPostgres | undefined,
  tracer: Tracer | null,
): pg.Pool {
  const pool = new pg.Pool(config);
  // pg's own signatures are overloads; the pool itself calls this one with a callback.
  const connect = pool.connect.bind(pool) as (callback: Callback) => void;
  const observed = (callback: Callback): void => {
    const start = performance.now();
    // The request that returns the connection calls it. Bind it, so that spans belong to the waiting request.
    const bound = tracer ? AsyncResource.bind(callback) : callback;
    connect((error, client, release) => {
      if (error) {
        observe?.postgresFailed('connect');
        report(watch, error);
      } else observe?.connectionAcquired((performance.now() - start) / 1000);
      bound(error, client, release);
    });
  };
  pool.connect = ((callback?: Callback) => {
    if (callback) {
      observed(callback);
      return;
    }
    return new Promise<pg.PoolClient>((resolve, reject) => {
      observed((error, client) => {
        if (error) reject(error);
        else resolve(client as pg.PoolClient);
      });
    });
  }) as pg.Pool['connect'];
  return pool;
}

/**
 * A connection that measures its statements, and closes itself after a timeout. pg stops waiting for the statement but
 * keeps the connection, on which the statement still runs, perhaps in an open transaction. The next statements on that
 * connection would join this transaction and be rolled back with it, after they had been reported as done.
 */
export function observedClient(
  observe: ObservePostgres | null,
  watch: WatchPostgres | undefined,
  tracer: Tracer | null,
): typeof pg.Client {
  return class extends pg.Client {
    constructor(...args: ConstructorParameters<typeof pg.Client>) {
      super(...args);
      // The pool hands a connection out without a listener, and Prisma adds one only after a promise. An error between
      // would end the process: with a queue, the answer that frees a connection and the server's FATAL may arrive
      // together.
      this.on('error', () => undefined);
    }

    // pg's own signature has a dozen overloads. This code reads only the statement's first word.
    override query(...args: unknown[]): never {
      const statement = statementOf(args[0]);
      // Prisma's own way to set the level of a transaction takes a statement more.
      const begun = args[0] as { text?: string };
      if (begun.text === 'BEGIN') begun.text = BEGIN;
      const start = performance.now();
      const span = tracer && startSpan(tracer, statement);
      const ended = (error: unknown) => {
        span?.end(error ?? undefined);
        if (!error) {
          observe?.statementAnswered(statement, (performance.now() - start) / 1000);
          watch?.works();
          return;
        }
        const failure = failureOf(error);
        if (failure) observe?.postgresFailed(failure);
        report(watch, error);
      };
      const callback = args.at(-1);
      if (typeof callback === 'function') {
        args[args.length - 1] = (error: unknown, result: unknown) => {
          ended(error);
          (callback as Callback)(error as Error, result);
        };
      }
      const work = (super.query as (...args: unknown[]) => unknown).apply(this, args);
      if (work instanceof Promise) {
        work.then(
          () => {
            ended(null);
          },
          (error: unknown) => {
            ended(error);
            // During a statement, `end` destroys the socket.
            if (isTimeout(error)) void this.end();
          },
        );
      }
      return work as never;
    }
  };
}

function report(watch: WatchPostgres | undefined, error: unknown): void {
  const cause = watch && causeOf(error);
  if (cause) watch.failed(cause);
}

/** Spans do not contain the statement's text. */
function startSpan(tracer: Tracer, statement: Statement): Span {
  const attributes = { 'db.system.name': 'postgresql', 'db.operation.name': statement };
  return tracer.start(`postgresql ${statement}`, attributes);
}

const FIRST_WORDS: Readonly<Record<string, Statement>> = {
  SELECT: 'select',
  INSERT: 'insert',
  UPDATE: 'update',
  DELETE: 'delete',
  WITH: 'with',
  BEGIN: 'transaction',
  COMMIT: 'transaction',
  ROLLBACK: 'transaction',
  SAVEPOINT: 'transaction',
  RELEASE: 'transaction',
};

/** @param query text, or an object with a `text`. */
export function statementOf(query: unknown): Statement {
  const text = typeof query === 'string' ? query : ((query as { text?: string } | undefined)?.text ?? '');
  const word = /^\s*(\w+)/.exec(text)?.[1] ?? '';
  return FIRST_WORDS[word.toUpperCase()] ?? 'other';
}

/** Classifies an error of pg; null if it is no failure. */
export function failureOf(error: unknown): PostgresFailure | null {
  if (isTimeout(error)) return 'timeout';
  const { code = '', message } = error as NodeJS.ErrnoException;
  const known = failureOfState(code);
  if (known) return known.kind;
  return /^E[A-Z]+$/.test(code) || /connection|not queryable/i.test(message) ? 'connection' : 'other';
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}
