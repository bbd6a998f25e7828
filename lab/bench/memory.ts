import { setTimeout as sleep } from 'node:timers/promises';
import { BASE_MEMORY } from '../../src/config/config.ts';
import { hashMemory } from '../../src/infra/crypto/scrypt-hasher.ts';
import { load, loginFlood } from '../../test/support/generator/generator.ts';
import { verifyRequest } from '../../test/support/generator/requests.ts';
import { startServer } from '../../test/support/measured-server.ts';
import { PRODUCTION_COST, type World } from './world.ts';

const SESSIONS = 64;
/** Near what one core answers beside the hashes. */
const VERIFY_PER_SECOND = 2000;
/** Milliseconds. */
const SAMPLE_INTERVAL = 50;
/** The default; one more, since each hash must cost what the budget says; and tracing, which buffers spans. */
const CASES = [
  { concurrency: 2, tracing: false },
  { concurrency: 3, tracing: false },
  { concurrency: 2, tracing: true },
];
type Case = (typeof CASES)[number];

export interface MemoryRound extends Case {
  /** Bytes. The highest sample of the process's anonymous memory: heap, buffers and hashes, without mapped files. */
  peak: number;
  /** Bytes of `peak` that no hash takes. */
  base: number;
}

export interface MemoryReport {
  rounds: MemoryRound[];
  /** Bytes that the configuration check assumes besides the hashes. */
  budget: number;
  isOver: boolean;
}

/**
 * The memory of one replica while it verifies near full speed and more logins arrive than it can check. On a busy
 * machine some requests fail, which does not matter here.
 */
export async function measureMemory(
  world: World,
  { seconds, cases = CASES.length }: { seconds: number; cases?: number },
): Promise<MemoryReport> {
  const rounds: MemoryRound[] = [];
  for (const each of CASES.slice(-cases)) rounds.push(await measure(world, each, seconds));
  const isOver = rounds.some(({ base }) => base > BASE_MEMORY);
  return { rounds, budget: BASE_MEMORY, isOver };
}

async function measure(world: World, { concurrency, tracing }: Case, seconds: number): Promise<MemoryRound> {
  const tokens = (await world.sessions(SESSIONS)).map(({ access_token }) => access_token);
  const server = await startServer({
    script: new URL('../../src/server.js', import.meta.url).pathname,
    nodeOptions: [],
    env: {
      ...world.env,
      RATE_LIMIT_LOGIN: '0',
      RATE_LIMIT_ACCOUNT: '0',
      HASH_CONCURRENCY: String(concurrency),
      UV_THREADPOOL_SIZE: '8',
      // Nothing listens there: spans wait in the exporter's queue, which is its largest size.
      ...(tracing && { OTEL_TRACES_EXPORTER: 'otlp', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }),
    },
    logFile: `${world.folder}/memory-${concurrency}${tracing ? '-tracing' : ''}.log`,
  });
  let peak = 0;
  const sampling = new AbortController();
  const sampled = (async () => {
    while (!sampling.signal.aborted) {
      peak = Math.max(peak, server.anonymousMemory());
      await sleep(SAMPLE_INTERVAL);
    }
  })();
  try {
    const verify = {
      origin: server.url,
      requests: tokens.map(verifyRequest),
      perSecond: VERIFY_PER_SECOND,
      seconds,
    };
    await Promise.all([
      loginFlood(server.url, seconds, ['401', '503', 'failed']),
      load(verify, ['200', '503', 'failed']),
    ]);
  } finally {
    sampling.abort();
    await sampled;
    await server.stop();
  }
  return { concurrency, tracing, peak, base: peak - concurrency * hashMemory(PRODUCTION_COST) };
}
