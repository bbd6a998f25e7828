/**
 * An open loop: requests leave at a steady rate, whether or not earlier ones have been answered. Each is timed from
 * the moment at which it was due. If a server or the generator stalls, every request due meanwhile is late.
 * A closed loop would stall too, and see a single slow answer.
 *
 * It runs in its own process, so that neither the bench nor another generator delays it. It reads its job as JSON from
 * standard input and writes its results to standard output.
 */
import os from 'node:os';
import { text } from 'node:stream/consumers';
import { openConnection, type Answer, type Connection } from './connection.ts';
import { pace } from './pace.ts';
import { nextRefresh } from './requests.ts';

export interface OpenLoopJob {
  origin: string;
  /** Whole requests, sent in turn. */
  requests: string[];
  /** The requests are refreshes, each of its own session. Each is sent again with the newest token. */
  chained?: boolean;
  perSecond: number;
  seconds: number;
}

export interface OpenLoopResult {
  /** Answers by status; `failed` counts lost connections. */
  statuses: Record<string, number>;
  /** From the due time to the answer, in milliseconds. */
  p50: number;
  p99: number;
  p999: number;
  /** From the due time to the sending: the generator's own delay. */
  lateP99: number;
  /** The generator's share of one core. */
  cpu: number;
  /** Of a chain: the requests with the newest tokens. */
  requests?: string[];
  /** Why a connection was lost. */
  failure?: string;
}

/** As many as a proxy keeps open. If all are busy, requests wait, and their time counts. */
const MAX_CONNECTIONS = 256;

/** Not counted: connections are opened meanwhile. */
const WARM_UP_SECONDS = 0.3;

async function runOpenLoop(job: OpenLoopJob): Promise<OpenLoopResult> {
  const { perSecond, seconds, chained = false } = job;
  const requests = [...job.requests];
  const pool = makePool(new URL(job.origin));
  const statuses: Record<string, number> = {};
  const took: number[] = [];
  const late: number[] = [];
  let failure = '';
  const cpu = process.cpuUsage();
  const start = performance.now() + 50;
  const counted = start + WARM_UP_SECONDS * 1000;
  const total = Math.round(perSecond * (WARM_UP_SECONDS + seconds));

  /** Requests that may be sent: a session can refresh only once at a time. */
  const free = requests.map((_, at) => at);
  /** Due times of requests that wait for a connection or a session. */
  const waiting: number[] = [];
  let inFlight = 0;
  let answers = 0;
  let finish: () => void = () => undefined;
  const send = (due: number) => {
    const at = inFlight < MAX_CONNECTIONS ? free.shift() : undefined;
    if (at === undefined) {
      waiting.push(due);
      return;
    }
    const request = requests[at] ?? '';
    inFlight++;
    if (!chained) free.push(at);
    pool.ask(request, ({ status, body }) => {
      inFlight--;
      if (due >= counted) took.push(performance.now() - due);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status === 'failed') failure = body;
      if (chained) {
        if (status === '200') requests[at] = nextRefresh(request, body);
        free.push(at);
      }
      const next = waiting.shift();
      if (next !== undefined) send(next);
      if (++answers === total) finish();
    });
  };

  await new Promise<undefined>((resolve) => {
    finish = () => {
      resolve(undefined);
    };
    void pace(start, { total, dueOf: (at) => (at * 1000) / perSecond }, (due, now) => {
      if (due >= counted) late.push(now - due);
      send(due);
    });
  });
  pool.close();
  const { user, system } = process.cpuUsage(cpu);
  took.sort((a, b) => a - b);
  late.sort((a, b) => a - b);
  return {
    statuses,
    p50: percentile(took, 0.5),
    p99: percentile(took, 0.99),
    p999: percentile(took, 0.999),
    lateP99: percentile(late, 0.99),
    cpu: (user + system) / 1000 / (performance.now() - start),
    ...(chained && { requests }),
    ...(failure !== '' && { failure }),
  };
}

/** Idle connections; if there is none, it opens another. */
function makePool(origin: URL) {
  const idle: Connection[] = [];
  const take = () => {
    let connection = idle.pop();
    while (connection && !connection.isOpen()) connection = idle.pop();
    return connection ?? openConnection(origin);
  };
  return {
    ask(request: string, answered: (answer: Answer) => void) {
      const connection = take();
      connection.ask(request, (answer) => {
        if (connection.isOpen()) idle.push(connection);
        answered(answer);
      });
    },
    close() {
      for (const connection of idle) connection.close();
    },
  };
}

function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** Raises the priority if allowed: the bench measures the server's delay, not the generator's. */
function raisePriority(): void {
  try {
    os.setPriority(-10);
  } catch {
    // Only root may; `lateP99` shows the cost.
  }
}

raisePriority();
const job = JSON.parse(await text(process.stdin)) as OpenLoopJob;
process.stdout.write(JSON.stringify(await runOpenLoop(job)));
