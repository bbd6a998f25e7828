import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { runLoad, type Caller } from '../bench/load.ts';
import { startServer, type ServerProcess } from '../bench/server-process.ts';
import type { World } from '../bench/world.ts';
import { eventually } from '../support/until.ts';
import { postgresBetween, type StoreMeter } from './stores.ts';

/** One round of load. CPU times in microseconds of one request. */
export interface Round {
  perSecond: number;
  /** CPU of all replicas, with all their threads. */
  micros: number;
  redisMicros: number;
  postgresMicros: number;
  /** Rows written in PostgreSQL for one request. */
  rows: number;
  /** Cores that the replicas used together. */
  cores: number;
}

/** Replicas of the service on the same stores. */
export interface Replicas {
  count: number;
  /** The connections take the replicas in turn. */
  run(callers: readonly Caller[], seconds: number): Promise<Round>;
  /** Cores that one replica uses without requests. */
  idle(seconds: number): Promise<number>;
  stop(): Promise<void>;
}

/** Where servers and load share the cores, a store that answers late is not down. */
const PATIENT = { REDIS_TIMEOUT: '5000', DATABASE_TIMEOUT: '60000' };

const SCRIPT = new URL('../../src/server.js', import.meta.url).pathname;

export async function startReplicas(
  world: World,
  meter: StoreMeter,
  count: number,
  changes: Record<string, string> = {},
): Promise<Replicas> {
  const servers: ServerProcess[] = [];
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  const started = await Promise.allSettled(
    Array.from({ length: count }, async () => {
      const logFile = `${world.folder}/replica-${randomUUID()}.log`;
      const env = { ...world.unlimited, ...PATIENT, ...changes };
      const server = await startServer({ script: SCRIPT, nodeOptions: [], env, logFile });
      servers.push(server);
      await eventually(30, () => unreadiness(logFile));
    }),
  );
  const failed = started.find((each) => each.status === 'rejected');
  if (failed) {
    await stop();
    throw failed.reason;
  }
  const cpuSeconds = () => servers.reduce((sum, server) => sum + server.cpuSeconds(), 0);
  return {
    count,
    async run(callers, seconds) {
      const before = { cpu: cpuSeconds(), ...(await meter.read()) };
      const results = await Promise.all(
        servers.map(({ url }, i) =>
          runLoad(
            url,
            callers.filter((_, at) => at % count === i),
            seconds,
          ),
        ),
      );
      const cpu = cpuSeconds() - before.cpu;
      const after = await meter.read();
      for (const server of servers) server.emptyLog();
      const requests = results.reduce((sum, result) => sum + result.requests, 0);
      const elapsed = Math.max(...results.map((result) => result.seconds));
      if (requests === 0) throw new Error('a round had no answers: raise SCALE_SECONDS');
      return {
        perSecond: requests / elapsed,
        micros: (cpu * 1e6) / requests,
        redisMicros: ((after.redis - before.redis) * 1e6) / requests,
        postgresMicros: (postgresBetween(before, after) * 1e6) / requests,
        rows: (after.rows - before.rows) / requests,
        cores: cpu / elapsed,
      };
    },
    async idle(seconds) {
      const [cpu, start] = [cpuSeconds(), performance.now()];
      await sleep(seconds * 1000);
      return ((cpuSeconds() - cpu) * 1000) / (performance.now() - start) / count;
    },
    stop,
  };
}

/** Why the replica may not get requests yet, or null: after the start, it replays revocations to Redis. */
async function unreadiness(logFile: string): Promise<string | null> {
  const ops = /"ops":"([^"]+)"/.exec(readFileSync(logFile, 'utf8'))?.[1];
  if (ops === undefined) return 'the log names no ops port';
  const response = await fetch(`${ops}/health/ready`);
  return response.ok ? null : `not ready: ${await response.text()}`;
}
