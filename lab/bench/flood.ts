import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { load, loginFlood, LOGINS_PER_SECOND } from '../../test/support/generator/generator.ts';
import type { OpenLoopResult } from '../../test/support/generator/open-loop.ts';
import { verifyRequest } from '../../test/support/generator/requests.ts';
import { startServer } from '../../test/support/measured-server.ts';
import { median } from './statistics.ts';
import type { World } from './world.ts';

/** Far below the capacity of one core: the test measures latency, not throughput. */
const VERIFY_PER_SECOND = 500;
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
  /** The median of the rounds' ratios of p99, flooded to idle. */
  ratio: number;
  ratios: number[];
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
  { rounds: count, seconds }: { rounds: number; seconds: number },
): Promise<FloodReport> {
  const tokens = (await world.sessions(SESSIONS)).map(({ access_token }) => access_token);
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
    return { ratio: median(ratios), ratios, perSecond, rounds };
  } finally {
    await server.stop();
  }
}

/** Waits for an empty queue. Passwords are checked in order: once a new one is checked, all earlier ones are too. */
async function queueEmpty(origin: string): Promise<void> {
  const body = JSON.stringify({ username: 'unknown', password: 'a wrong password' });
  const headers = { 'content-type': 'application/json' };
  while ((await fetch(`${origin}/api/auth`, { method: 'POST', headers, body })).status === 503)
    await sleep(100);
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
