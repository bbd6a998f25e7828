import { fail, ok, warn, type Finding } from './finding.ts';

/** Number of samples; the fastest answer is the most accurate. */
const SAMPLES = 3;

/** Milliseconds. At a second or more, some refreshes are judged by the wrong time (docs/rotation.md). */
const NOTICEABLE = 1000;
/** Milliseconds that the checks of a token's times tolerate. */
const TOLERATED = 5000;

/** How far another clock is ahead of ours, and the error of that measurement; milliseconds. */
export interface Difference {
  ahead: number;
  within: number;
}

/** @param ask reads the other clock, in milliseconds since 1970. */
export async function compareClocks(ask: () => Promise<number>): Promise<Difference> {
  const differences: Difference[] = [];
  for (let i = 0; i < SAMPLES; i++) {
    const before = Date.now();
    const since = performance.now();
    const theirs = await ask();
    const took = performance.now() - since;
    differences.push({ ahead: theirs - (before + took / 2), within: took / 2 + 1 });
  }
  return differences.reduce((best, next) => (next.within < best.within ? next : best));
}

export function judgeClock(whose: string, { ahead, within }: Difference): Finding {
  const check = `clock of ${whose}`;
  const atLeast = Math.max(0, Math.abs(ahead) - within);
  if (atLeast <= NOTICEABLE) return ok(check, `within ${Math.ceil(Math.abs(ahead) + within)} ms of ours`);
  const found = `${(Math.abs(ahead) / 1000).toFixed(1)} s ${ahead > 0 ? 'ahead of' : 'behind'} ours`;
  const todo = 'synchronize the clocks of all machines with NTP';
  return atLeast <= TOLERATED ? warn(check, found, todo) : fail(check, found, todo);
}
