import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { runLoad, type Caller } from '../../test/support/generator/load.ts';
import { startServer, type ServerProcess } from '../../test/support/measured-server.ts';
import type { World } from '../bench/world.ts';
import { eventually } from '../../test/support/until.ts';
import type { StoreMeter } from './stores.ts';

/** CPU in cores that is used without requests. */
export interface Idle {
  /** Of one replica. */
  replica: number;
  /** Of the stores, for all replicas that run. */
  redis: number;
  postgres: number;
}

/** One round of load. CPU times in microseconds of one request, without what is used when idle. */
export interface Round {
  perSecond: number;
  /** CPU of all replicas, with all their threads. */
  micros: number;
  redisMicros: number;
  postgresMicros: number;
  requests: number;
}

/** Replicas of the service on the same stores. */
export interface Replicas {
  count: number;
  urls: readonly string[];
  /**
   * The connections take the replicas in turn. A round ends when write-behind has written everything: its work belongs to
   * these requests.
   */
  run(callers: readonly Caller[], seconds: number, options?: RunOptions): Promise<Round>;
  /** CPU seconds of all replicas so far, with all their threads. */
  cpuSeconds(): number;
  stop(): Promise<void>;
}

interface RunOptions {
  /** Is subtracted; by default, idle work counts. */
  idle?: Idle;
  /** What gets all connections: a proxy that shares the requests among the replicas, or one of these. */
  through?: string | undefined;
  /** Seconds after the last answer that belong to the requests too. */
  afterwards?: number;
}

/** Where servers and load share the cores, a store that answers late is not down. */
const PATIENT = { REDIS_TIMEOUT: '5000', DATABASE_TIMEOUT: '60000' };

const NOTHING: Idle = { replica: 0, redis: 0, postgres: 0 };

const SCRIPT = new URL('../../src/server.js', import.meta.url).pathname;

export async function startReplicas(
  world: World,
  meter: StoreMeter,
  count: number,
  changes: Record<string, string> = {},
  script = SCRIPT,
): Promise<Replicas> {
  const servers: ServerProcess[] = [];
  const opsUrls: string[] = [];
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  const started = await Promise.allSettled(
    Array.from({ length: count }, async () => {
      const logFile = `${world.folder}/replica-${randomUUID()}.log`;
      const env = { ...world.unlimited, ...PATIENT, ...changes };
      const server = await startServer({ script, nodeOptions: [], env, logFile });
      servers.push(server);
      await eventually(30, () => unreadiness(logFile));
      opsUrls.push(opsOf(logFile) ?? '');
    }),
  );
  const failed = started.find((each) => each.status === 'rejected');
  if (failed) {
    await stop();
    throw failed.reason;
  }
  const cpuSeconds = () => servers.reduce((sum, server) => sum + server.cpuSeconds(), 0);
  const urls = servers.map(({ url }) => url);
  return {
    count,
    urls,
    async run(callers, seconds, { idle = NOTHING, through, afterwards = 0 } = {}) {
      const origins = through === undefined ? urls : [through];
      const since = performance.now();
      const before = { cpu: cpuSeconds(), ...(await meter.read()) };
      const results = await Promise.all(
        origins.map((origin, i) =>
          runLoad(
            origin,
            callers.filter((_, at) => at % origins.length === i),
            seconds,
          ),
        ),
      );
      await sleep(afterwards * 1000);
      await settle(opsUrls);
      const cpu = cpuSeconds() - before.cpu;
      const after = await meter.read();
      const read = (performance.now() - since) / 1000;
      for (const server of servers) server.emptyLog();
      const requests = results.reduce((sum, result) => sum + result.requests, 0);
      const elapsed = Math.max(...results.map((result) => result.seconds));
      if (requests === 0) throw new Error('a round had no answers: raise SCALE_SECONDS');
      const microsOf = (used: number, idleCores: number) => ((used - idleCores * read) * 1e6) / requests;
      return {
        perSecond: requests / elapsed,
        micros: microsOf(cpu, idle.replica * count),
        redisMicros: microsOf(after.redis - before.redis, idle.redis),
        postgresMicros: microsOf(after.postgres - before.postgres, idle.postgres),
        requests,
      };
    },
    cpuSeconds,
    stop,
  };
}

/** Cores that these replicas and the stores use in the next seconds; nobody may ask anything meanwhile. */
export async function idleOf(
  meter: StoreMeter,
  running: readonly Replicas[],
  seconds: number,
): Promise<Idle> {
  const count = running.reduce((sum, each) => sum + each.count, 0);
  const cpuSeconds = () => running.reduce((sum, each) => sum + each.cpuSeconds(), 0);
  const start = performance.now();
  const before = { cpu: cpuSeconds(), ...(await meter.read()) };
  await sleep(seconds * 1000);
  const cpu = cpuSeconds() - before.cpu;
  const after = await meter.read();
  const elapsed = (performance.now() - start) / 1000;
  return {
    replica: cpu / elapsed / count,
    redis: (after.redis - before.redis) / elapsed,
    postgres: (after.postgres - before.postgres) / elapsed,
  };
}

/** Waits until write-behind has written everything. */
async function settle(opsUrls: readonly string[]): Promise<void> {
  await eventually(60, async () => {
    for (const ops of opsUrls) {
      const metrics = await (await fetch(`${ops}/metrics`)).text();
      const left = /^latchkey_write_behind_records (\d+)$/m.exec(metrics)?.[1];
      if (left !== '0') return `${left ?? 'an unknown number of'} records are not written yet`;
    }
    return null;
  });
}

/** @returns the URL of the ops port, if the log names it already. */
function opsOf(logFile: string): string | undefined {
  return /"ops":"([^"]+)"/.exec(readFileSync(logFile, 'utf8'))?.[1];
}

/** Why the replica may not get requests yet, or null: after the start, it replays revocations to Redis. */
async function unreadiness(logFile: string): Promise<string | null> {
  const ops = opsOf(logFile);
  if (ops === undefined) return 'the log names no ops port';
  const response = await fetch(`${ops}/health/ready`);
  return response.ok ? null : `not ready: ${await response.text()}`;
}
