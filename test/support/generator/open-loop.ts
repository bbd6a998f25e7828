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
import { pace } from '../../../packages/load/src/pace.ts';
import { nextRefresh } from './requests.ts';

export interface OpenLoopJob {
  /** Keeps the priority of the process that starts it: other tests run beside it. */
  keepsPriority?: boolean;
  origin: string;
  /** Another replica. Connections go to both in turn, until one of them refuses a connection. */
  other?: string;
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
  /** Answers that are no success, by status and code; see `refusalOf`. */
  refusals: Record<string, number>;
  /** Requests that still waited for a connection or a session when the last one was due. */
  waiting: number;
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
  const pool = makePool(new URL(job.origin), new URL(job.other ?? job.origin));
  const statuses: Record<string, number> = {};
  const refusals: Record<string, number> = {};
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
    pool.ask(request, (answer) => {
      const { status, body } = answer;
      inFlight--;
      if (due >= counted) took.push(performance.now() - due);
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status === 'failed') failure = body;
      const refusal = refusalOf(answer);
      if (refusal) refusals[refusal] = (refusals[refusal] ?? 0) + 1;
      if (chained) {
        if (status === '200') requests[at] = nextRefresh(request, body);
        free.push(at);
      }
      const next = waiting.shift();
      if (next !== undefined) send(next);
      if (++answers === total) finish();
    });
  };

  let stillWaiting = 0;
  await new Promise<undefined>((resolve) => {
    finish = () => {
      resolve(undefined);
    };
    void pace(start, { total, dueOf: (at) => (at * 1000) / perSecond }, (due, now) => {
      if (due >= counted) late.push(now - due);
      send(due);
    }).then(() => {
      stillWaiting = waiting.length;
    });
  });
  pool.close();
  const { user, system } = process.cpuUsage(cpu);
  took.sort((a, b) => a - b);
  late.sort((a, b) => a - b);
  return {
    statuses,
    refusals,
    waiting: stillWaiting,
    p50: percentile(took, 0.5),
    p99: percentile(took, 0.99),
    p999: percentile(took, 0.999),
    lateP99: percentile(late, 0.99),
    cpu: (user + system) / 1000 / (performance.now() - start),
    ...(chained && { requests }),
    ...(failure !== '' && { failure }),
  };
}

/** Idle connections; if there is none, it opens another, to each origin in turn. */
function makePool(origin: URL, other: URL) {
  const idle: Connection[] = [];
  let origins = [origin, other];
  let opened = 0;
  const take = () => {
    let connection = idle.pop();
    while (connection && !connection.isOpen()) connection = idle.pop();
    return connection ?? openConnection(origins[opened++ % origins.length] ?? origin);
  };
  const ask = (request: string, answered: (answer: Answer) => void) => {
    const connection = take();
    connection.ask(request, (answer) => {
      if (connection.isOpen()) idle.push(connection);
      const others = origins.filter((each) => each !== connection.origin);
      // Nothing was sent. A balancer takes such a replica out, and asks another.
      if (answer.body.includes('ECONNREFUSED') && others.length > 0) {
        origins = others;
        ask(request, answered);
      } else answered(answer);
    });
  };
  return {
    ask,
    close() {
      for (const connection of idle) connection.close();
    },
  };
}

/** `503 unavailable`, for example; null for a success. Introspection answers 200 to a token that is not good. */
function refusalOf({ status, head, body }: Answer): string | null {
  if (status === 'failed') return null;
  if (status === '200') return body.startsWith('{"active":false') ? '200 inactive' : null;
  const code = /"(?:code|error)":"(\w+)"/.exec(body)?.[1] ?? 'without a code';
  const mustWait = status === '429' || status === '503';
  return `${status} ${code}${mustWait && !/\r\nretry-after: [1-9]/i.test(head) ? ' without Retry-After' : ''}`;
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

const job = JSON.parse(await text(process.stdin)) as OpenLoopJob;
if (!job.keepsPriority) raisePriority();
process.stdout.write(JSON.stringify(await runOpenLoop(job)));
