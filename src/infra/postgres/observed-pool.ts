import { AsyncResource } from 'node:async_hooks';
import pg from 'pg';
import type { Observe } from '../../domain/metrics/observe.ts';
import type { Span, Tracer } from '../../domain/tracing/tracer.ts';
import type { PostgresFailure, Statement } from '../../domain/metrics/outcomes.ts';

export type ObservePostgres = Pick<Observe, 'statementAnswered' | 'connectionAcquired' | 'postgresFailed'>;

type Callback = (error: Error | undefined, result: unknown, release?: unknown) => void;

/** The pool, which tells how long work waits for one of its connections. */
export function makeObservedPool(
  config: pg.PoolConfig,
  observe: ObservePostgres,
  tracer: Tracer | null,
): pg.Pool {
  const pool = new pg.Pool(config);
  // pg's own signatures are overloads; the pool itself calls this one with a callback.
  const connect = pool.connect.bind(pool) as (callback: Callback) => void;
  const observed = (callback: Callback): void => {
    const start = performance.now();
    // Whoever gives the connection back calls it, which is another request.
    const bound = tracer ? AsyncResource.bind(callback) : callback;
    connect((error, client, release) => {
      if (error) observe.postgresFailed('connect');
      else observe.connectionAcquired((performance.now() - start) / 1000);
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
 * A connection that tells how long its statements take, and does not outlive one that timed out. pg gives the statement
 * up and keeps the connection, on which it still runs, perhaps within a transaction that nobody will end: whatever came
 * next on that connection would belong to it, and be lost with it after it had been said to be done.
 */
export function observedClient(observe: ObservePostgres, tracer: Tracer | null): typeof pg.Client {
  return class extends pg.Client {
    // pg's own signature is a dozen overloads; of what passes through here only the statement's first word is looked at.
    override query(...args: unknown[]): never {
      const statement = statementOf(args[0]);
      const start = performance.now();
      const span = tracer && startSpan(tracer, statement);
      const ended = (error: unknown) => {
        span?.end(error ?? undefined);
        if (!error) {
          observe.statementAnswered(statement, (performance.now() - start) / 1000);
          return;
        }
        const failure = failureOf(error);
        if (failure) observe.postgresFailed(failure);
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
            // Ending a connection in the middle of a statement destroys its socket.
            if (isTimeout(error)) void this.end();
          },
        );
      }
      return work as never;
    }
  };
}

/** The statement's text stays out of it. */
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

/** @param query text, or an object with it. */
export function statementOf(query: unknown): Statement {
  const text = typeof query === 'string' ? query : ((query as { text?: string } | undefined)?.text ?? '');
  const word = /^\s*(\w+)/.exec(text)?.[1] ?? '';
  return FIRST_WORDS[word.toUpperCase()] ?? 'other';
}

/** Classes and codes of PostgreSQL's errors, the first that fits. */
const STATES: readonly [RegExp, PostgresFailure | null][] = [
  // A duplicate is an answer.
  [/^23/, null],
  [/^(57014|55P03)/, 'timeout'],
  [/^40/, 'conflict'],
  [/^53|^58/, 'resources'],
  [/^(08|57|25006)/, 'connection'],
];

/** What kind of failure an error of pg's tells of; null for none. */
export function failureOf(error: unknown): PostgresFailure | null {
  if (isTimeout(error)) return 'timeout';
  const { code = '', message } = error as NodeJS.ErrnoException;
  for (const [pattern, failure] of STATES) if (pattern.test(code)) return failure;
  return /^E[A-Z]+$/.test(code) || /connection|not queryable/i.test(message) ? 'connection' : 'other';
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout';
}
