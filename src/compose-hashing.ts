import type { Config } from './config.ts';
import type { Clock } from './domain/clock.ts';
import type { Observe } from './domain/metrics/observe.ts';
import { makeBulkhead, type Bulkhead } from './domain/passwords/bulkhead.ts';
import type { PasswordHasher } from './domain/passwords/ports.ts';
import type { Tracer } from './domain/tracing/tracer.ts';
import { makeLagGauge } from './event-loop-lag.ts';
import type { LoadSheddingOptions } from './http/plugins/load-shedding.ts';
import { makeScryptHasher } from './infra/crypto/scrypt-hasher.ts';
import { traceHasher } from './infra/tracing/traced.ts';

/** What checks passwords, and what says when there are too many of them. */
export interface Hashing {
  hasher: PasswordHasher;
  bulkhead: Bulkhead;
  /** A hash of the configured cost that no password opens. */
  dummyHash: Uint8Array;
  loadShedding: Omit<LoadSheddingOptions, 'observe'>;
  close(): void;
}

/** Between two looks at how late the event loop is, in milliseconds. */
const LAG_INTERVAL = 100;

export async function makeHashing(
  config: Config,
  clock: Clock,
  observe: Observe,
  tracer: Tracer | null,
): Promise<Hashing> {
  const scrypt = makeScryptHasher({ logN: config.SCRYPT_LOG_N, r: config.SCRYPT_R, p: config.SCRYPT_P });
  const hasher = tracer ? traceHasher(scrypt, tracer) : scrypt;
  const bulkhead = makeBulkhead(
    {
      concurrency: config.HASH_CONCURRENCY,
      queue: config.HASH_QUEUE,
      queueTimeout: config.HASH_QUEUE_TIMEOUT * 1000,
    },
    {
      set: setTimeout,
      clear: (timer) => {
        clearTimeout(timer as NodeJS.Timeout);
      },
    },
    clock,
    observe,
  );
  // Through the bulkhead, which thereby knows what a hash takes before the first login.
  const dummyHash = await bulkhead.run(() => hasher.hash('no password opens this'));
  const gauge = makeLagGauge(LAG_INTERVAL, clock);
  const timer = setInterval(() => {
    gauge.look();
  }, LAG_INTERVAL).unref();

  return {
    hasher,
    bulkhead,
    dummyHash,
    loadShedding: {
      lag: () => gauge.lag(),
      maxLag: config.SHED_LAG,
      hashRefusal: () => bulkhead.refusal(),
    },
    close() {
      clearInterval(timer);
    },
  };
}
