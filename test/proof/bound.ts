import { explore } from './explore.ts';
import { staysSignedIn } from './properties.ts';
import { realRule } from './rule.ts';
import { CLAIMS } from './worlds.ts';

/** Seconds: fine enough for several sums on either side of the window. */
export const STEP = 3;

/**
 * @param answer the most seconds from the issue of a pair until the owner stores it
 * @param request the most seconds from sending a request until the store takes it
 * @returns whether an owner is ever signed out
 */
export function signsOut(answer: number, request: number): boolean {
  const [owner] = CLAIMS;
  if (!owner) throw new Error('the first claim is about the owner');
  const delays = { answerDelay: answer / STEP, requestDelay: request / STEP };
  const world = { ...owner.world, ...delays, step: STEP, clients: owner.world.clients.slice(0, 1) };
  return explore(world, realRule, [staysSignedIn]).counterexamples.size > 0;
}

/** Every way to divide a sum of delays. */
export function splits(sum: number): [answer: number, request: number][] {
  return Array.from({ length: sum / STEP + 1 }, (_, index) => [index * STEP, sum - index * STEP]);
}
