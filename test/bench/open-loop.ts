/**
 * An open loop: requests leave at a steady rate, whether or not earlier ones have been answered. Each is timed from
 * the moment at which it was due. If a server or the generator stalls, every request due meanwhile is late.
 * A closed loop would stall too, and see a single slow answer.
 *
 * It runs in its own process, so that neither the bench nor another generator delays it. It reads its job as JSON from
 * standard input and writes its results to standard output.
 */
import { connect, type Socket } from 'node:net';
import os from 'node:os';
import { text } from 'node:stream/consumers';
import { bodyOf } from './load.ts';

export interface OpenLoopJob {
  origin: string;
  /** Whole requests, sent in turn. */
  requests: string[];
  perSecond: number;
  seconds: number;
}

export interface OpenLoopResult {
  /** Answers by status; `failed` counts lost connections. */
  statuses: Record<string, number>;
  /** From the due time to the answer, in milliseconds. */
  p50: number;
  p99: number;
  /** From the due time to the sending: the generator's own delay. */
  lateP99: number;
  /** The generator's share of one core. */
  cpu: number;
}

/** Idle connections; if there is none, the generator opens another. */
type Pool = Socket[];

async function runOpenLoop({ origin, requests, perSecond, seconds }: OpenLoopJob): Promise<OpenLoopResult> {
  const { hostname, port } = new URL(origin);
  const pool: Pool = [];
  const statuses: Record<string, number> = {};
  const took: number[] = [];
  const late: number[] = [];
  const answers: Promise<void>[] = [];
  const cpu = process.cpuUsage();
  const start = performance.now() + 50;
  const total = Math.round(perSecond * seconds);

  const send = async (request: string, due: number) => {
    late.push(performance.now() - due);
    const status = await ask(pool, { host: hostname, port: Number(port) }, request);
    took.push(performance.now() - due);
    statuses[status] = (statuses[status] ?? 0) + 1;
  };
  await new Promise<void>((resolve) => {
    let sent = 0;
    const tick = () => {
      const now = performance.now();
      for (; sent < total; sent++) {
        const due = start + (sent * 1000) / perSecond;
        if (due > now) break;
        answers.push(send(requests[sent % requests.length] ?? '', due));
      }
      if (sent < total) setTimeout(tick, 1);
      else resolve();
    };
    tick();
  });
  await Promise.all(answers);
  for (const socket of pool) socket.destroy();
  const { user, system } = process.cpuUsage(cpu);
  return {
    statuses,
    p50: percentile(took, 0.5),
    p99: percentile(took, 0.99),
    lateP99: percentile(late, 0.99),
    cpu: (user + system) / 1000 / (performance.now() - start),
  };
}

/** @returns the answer's status, or `failed`. */
function ask(pool: Pool, address: { host: string; port: number }, request: string): Promise<string> {
  const socket = pool.pop() ?? connect({ ...address, noDelay: true }).setEncoding('latin1');
  return new Promise((resolve) => {
    let received = '';
    const finish = (status: string) => {
      socket.removeAllListeners();
      if (status === 'failed') socket.on('error', () => undefined).destroy();
      else pool.push(socket);
      resolve(status);
    };
    const fail = () => {
      finish('failed');
    };
    socket.on('error', fail).on('close', fail);
    socket.on('data', (chunk) => {
      received += chunk.toString();
      if (bodyOf(received) !== null) finish(received.slice(9, 12));
    });
    socket.write(request, 'latin1');
  });
}

function percentile(values: number[], share: number): number {
  const sorted = values.sort((a, b) => a - b);
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
