import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { OpenLoopJob, OpenLoopResult } from './open-loop.ts';
import { jsonRequest } from './requests.ts';

const OPEN_LOOP = new URL('./open-loop.js', import.meta.url).pathname;

/** Ten times the number that two cores can hash. */
export const LOGINS_PER_SECOND = 100;

/** Runs a load generator in its own process. */
export async function generate(job: OpenLoopJob): Promise<OpenLoopResult> {
  const child = spawn(process.execPath, [OPEN_LOOP], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(job));
  const [output] = await Promise.all([text(child.stdout), once(child, 'close')]);
  if (child.exitCode !== 0) throw new Error('the load generator failed');
  return JSON.parse(output) as OpenLoopResult;
}

/** The same. @param expected the only statuses that may occur. */
export async function load(job: OpenLoopJob, expected: string[]): Promise<OpenLoopResult> {
  const result = await generate(job);
  const { statuses, failure = '' } = result;
  if (Object.keys(statuses).some((status) => !expected.includes(status)))
    throw new Error(`answers other than ${expected.join(' and ')}: ${JSON.stringify(statuses)} ${failure}`);
  return result;
}

/** Sends more logins than a replica can check. @param expected as in `load`. */
export function loginFlood(origin: string, seconds: number, expected: string[]): Promise<OpenLoopResult> {
  const requests = Array.from({ length: 100 }, (_, i) => wrongLogin(`unknown-${i}`));
  return load({ origin, requests, perSecond: LOGINS_PER_SECOND, seconds }, expected);
}

function wrongLogin(username: string): string {
  return jsonRequest('POST /api/auth', { username, password: 'a wrong password' });
}
