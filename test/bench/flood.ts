import { spawn } from 'node:child_process';
import { once } from 'node:events';
import os from 'node:os';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { OpenLoopJob, OpenLoopResult } from './open-loop.ts';
import { median } from './report.ts';
import { startServer } from './server-process.ts';
import type { World } from './world.ts';

const OPEN_LOOP = new URL('./open-loop.js', import.meta.url).pathname;

/** Far below the capacity of one core: the test measures latency, not throughput. */
const VERIFY_PER_SECOND = 500;
/** Ten times the number that two cores can hash. */
const LOGINS_PER_SECOND = 100;
const SESSIONS = 100;
const WARM_UP_SECONDS = 2;
/** How long the flood runs before and after the measurement. */
const MARGIN_SECONDS = 0.5;

export interface FloodRound {
  idle: OpenLoopResult;
  flooded: OpenLoopResult;
  logins: OpenLoopResult;
  /** Cores that the whole machine used without a flood. Other work makes the idle p99 meaningless. */
  idleCores: number;
}

export interface FloodReport {
  kind: 'verify in a flood of logins';
  /** The median of the rounds' ratios of p99, flooded to idle. */
  ratio: number;
  ratios: number[];
  /** The highest ratio allowed. */
  maximum: number;
  perSecond: { verify: number; logins: number };
  rounds: FloodRound[];
}

/**
 * The latency of verify while more passwords arrive than the service can check. Each round measures one server idle and
 * flooded, with a production's hashes.
 * @throws Error if a verify is not answered 200, or a login is neither refused nor shed.
 */
export async function measureFlood(
  world: World,
  { rounds: count, seconds, maximum }: { rounds: number; seconds: number; maximum: number },
): Promise<FloodReport> {
  const tokens = (await world.signUpMany(SESSIONS)).map(({ access_token }) => access_token);
  // A flood from many addresses with many names, which no limit stops.
  const server = await startServer({
    script: new URL('../../src/server.js', import.meta.url).pathname,
    nodeOptions: [],
    env: { ...world.env, RATE_LIMIT_LOGIN: '0', RATE_LIMIT_ACCOUNT: '0' },
    logFile: `${world.folder}/flooded.log`,
  });
  try {
    const origin = server.url;
    const verify = { origin, requests: tokens.map(verifyRequest), perSecond: VERIFY_PER_SECOND, seconds };
    await queueEmpty(origin);
    await load({ ...verify, seconds: WARM_UP_SECONDS }, ['200']);

    const rounds: FloodRound[] = [];
    while (rounds.length < count) {
      if (rounds.length > 0) await queueEmpty(origin);
      const cores = coresUsed();
      const idle = await load(verify, ['200']);
      const idleCores = cores();
      const flooding = loginFlood(origin, seconds + 2 * MARGIN_SECONDS, ['401', '503']);
      await sleep(MARGIN_SECONDS * 1000);
      const flooded = await load(verify, ['200']);
      rounds.push({ idle, flooded, logins: await flooding, idleCores });
    }
    const ratios = rounds.map(({ idle, flooded }) => flooded.p99 / idle.p99);
    const perSecond = { verify: VERIFY_PER_SECOND, logins: LOGINS_PER_SECOND };
    return { kind: 'verify in a flood of logins', ratio: median(ratios), ratios, maximum, perSecond, rounds };
  } finally {
    await server.stop();
  }
}

/** Sends more logins than a replica can check. @param expected as in `load`. */
export function loginFlood(origin: string, seconds: number, expected: string[]): Promise<OpenLoopResult> {
  const requests = Array.from({ length: 100 }, (_, i) => loginRequest(`unknown-${i}`));
  return load({ origin, requests, perSecond: LOGINS_PER_SECOND, seconds }, expected);
}

/** Runs a load generator in its own process. @param expected the only statuses that may occur. */
export async function load(job: OpenLoopJob, expected: string[]): Promise<OpenLoopResult> {
  const child = spawn(process.execPath, [OPEN_LOOP], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(job));
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  if (child.exitCode !== 0) throw new Error('the load generator failed');
  const result = JSON.parse(output) as OpenLoopResult;
  const { statuses } = result;
  if (Object.keys(statuses).some((status) => !expected.includes(status)))
    throw new Error(`answers other than ${expected.join(' and ')}: ${JSON.stringify(statuses)}`);
  return result;
}

/** Waits for an empty queue. Passwords are checked in order: once a new one is checked, all earlier ones are too. */
async function queueEmpty(origin: string): Promise<void> {
  const body = JSON.stringify(LOGIN('unknown'));
  const headers = { 'content-type': 'application/json' };
  while ((await fetch(`${origin}/api/auth`, { method: 'POST', headers, body })).status === 503)
    await sleep(100);
}

const LOGIN = (username: string) => ({ username, password: 'a wrong password' });

export function verifyRequest(token: string): string {
  return `GET /api/auth/verify HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\n\r\n`;
}

function loginRequest(username: string): string {
  const body = JSON.stringify(LOGIN(username));
  return `POST /api/auth HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

/** @returns how many cores the whole machine has used since that time. */
function coresUsed(): () => number {
  const times = () => {
    const all = os.cpus().map(({ times }) => times);
    const idle = all.reduce((sum, each) => sum + each.idle, 0);
    return { idle, total: all.reduce((sum, each) => sum + Object.values(each).reduce((a, b) => a + b), 0) };
  };
  const before = times();
  return () => {
    const now = times();
    const busy = 1 - (now.idle - before.idle) / (now.total - before.total);
    return busy * os.cpus().length;
  };
}
