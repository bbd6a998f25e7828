import { createPrivateKey, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { BASE_MEMORY } from '../../src/config/config.ts';
import { hashMemory } from '../../src/infra/crypto/scrypt-hasher.ts';
import { claimsOf, headerOf } from '../../test/support/client.ts';
import { load, loginFlood } from '../../test/support/generator/generator.ts';
import { runLoad } from '../../test/support/generator/load.ts';
import { verifyRequest } from '../../test/support/generator/requests.ts';
import { startServer } from '../../test/support/measured-server.ts';
import { CONNECTIONS } from './operations.ts';
import { PRODUCTION_COST, type World } from './world.ts';

const SESSIONS = 64;
/** Seconds in which all tokens are presented at the latest. */
const FILL_TIMEOUT = 300;
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
 * The memory of one replica that remembers as many tokens as BASE_MEMORY holds, while it verifies near full speed and
 * more logins arrive than it can check. On a busy machine some requests fail, which does not matter here.
 */
export async function measureMemory(
  world: World,
  { seconds, tokens, cases = CASES.length }: { seconds: number; tokens: number; cases?: number },
): Promise<MemoryReport> {
  const sessions = (await world.sessions(SESSIONS)).map(({ access_token }) => access_token);
  const requests = manyOf(sessions, tokens, world).map(verifyRequest);
  const rounds: MemoryRound[] = [];
  for (const each of CASES.slice(-cases)) rounds.push(await measure(world, each, { requests, seconds }));
  const isOver = rounds.some(({ base }) => base > BASE_MEMORY);
  return { rounds, budget: BASE_MEMORY, isOver };
}

/** Many access tokens of a few sessions: a replica remembers each token by itself. */
function manyOf(sessions: readonly string[], length: number, { env }: World): string[] {
  const key = createPrivateKey(readFileSync(join(env.SIGNING_KEYS_DIR ?? '', '0001.pem')));
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  return Array.from({ length }, (_, i) => {
    const token = sessions[i % sessions.length] ?? '';
    const input = `${encode(headerOf(token))}.${encode({ ...claimsOf(token), number: i })}`;
    const signature = sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' });
    return `${input}.${signature.toString('base64url')}`;
  });
}

/** Presents each token once. */
async function fill(url: string, requests: readonly string[]): Promise<void> {
  let at = 0;
  const next = () => requests[at++] ?? null;
  const callers = Array.from({ length: CONNECTIONS }, () => ({ next }));
  const { requests: answered } = await runLoad(url, callers, FILL_TIMEOUT);
  if (answered < requests.length)
    throw new Error(`only ${answered} tokens were answered in ${FILL_TIMEOUT} s`);
}

async function measure(
  world: World,
  { concurrency, tracing }: Case,
  { requests, seconds }: { requests: readonly string[]; seconds: number },
): Promise<MemoryRound> {
  const hashes = concurrency * hashMemory(PRODUCTION_COST);
  const server = await startServer({
    script: new URL('../../src/server.js', import.meta.url).pathname,
    nodeOptions: limitedTo(BASE_MEMORY + hashes),
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
    await fill(server.url, requests);
    const verify = {
      origin: server.url,
      requests: requests.slice(0, SESSIONS),
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
  return { concurrency, tracing, peak, base: peak - hashes };
}

/**
 * As in a container with this memory limit: what the service reads as the limit, and what V8 makes of it. V8 gives half
 * to the old generation, and a 128th of that to each of the young one's spaces (HeapSizeFromPhysicalMemory in heap.cc).
 * Without these, it would follow the memory of this machine, and collect garbage when it likes.
 */
function limitedTo(bytes: number): string[] {
  const old = bytes / 2 / 1024 ** 2;
  return [
    `--import=data:text/javascript,process.constrainedMemory=()=>${bytes}`,
    `--max-old-space-size=${Math.floor(old)}`,
    `--max-semi-space-size=${Math.ceil(old / 128)}`,
  ];
}
