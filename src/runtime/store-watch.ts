import type { FastifyBaseLogger } from 'fastify';
import type { Cause } from '../telemetry/store-cause.ts';

/** Hears of every success and failure of a store, and logs what changes. */
export interface StoreWatch {
  failed: (cause: Cause) => void;
  works: () => void;
  /** Why the store fails at present; null if it works. */
  cause: () => Cause | null;
}

interface StoreWatchOptions {
  logger: Pick<FastifyBaseLogger, 'warn' | 'info'>;
  store: 'PostgreSQL' | 'Redis';
  /** Which one: host and database. */
  target: object;
  /** Milliseconds. */
  now?: () => number;
}

/** A store works again after this time without a failure: some statements succeed while others fail. Milliseconds. */
const CALM = 5000;

/** A cause that comes back during one outage is logged again after this time, in milliseconds. */
const REPEAT = 60_000;

/** Logs each cause once, and again when it changes. */
export function makeStoreWatch({
  logger,
  store,
  target,
  now = () => performance.now(),
}: StoreWatchOptions): StoreWatch {
  let present: Cause | null = null;
  let failedAt = 0;
  const loggedAt = new Map<string, number>();

  return {
    failed(cause) {
      failedAt = now();
      const isSame = present?.code === cause.code;
      present = cause;
      if (isSame || failedAt - (loggedAt.get(cause.code) ?? -REPEAT) < REPEAT) return;
      loggedAt.set(cause.code, failedAt);
      logger.warn({ ...cause, ...target }, `${store} fails`);
    },
    works() {
      if (!present || now() - failedAt < CALM) return;
      present = null;
      loggedAt.clear();
      logger.info(target, `${store} works again`);
    },
    cause: () => present,
  };
}
