import type { HerdRound } from './herd.ts';

/** How the recovery time grows with the devices, and whether that is acceptable. */
export interface Growth {
  /** The exponent: 1 is linear, below 1 is better than linear. null if a round is missing or incomplete. */
  growth: number | null;
  /** The largest acceptable exponent. */
  limit: number;
  /** Why it is not judged; null if it is. */
  not_judged: string | null;
}

/**
 * Linear, with a tolerance: 0.15 over four times the devices are a recovery 1.23 times as long as linear. Growth with the
 * square of the devices is 2.
 */
export const GROWTH_LIMIT = 1.15;

/**
 * Devices of the first round below which growth says nothing: a few refusals are not spread, so recovery takes one
 * Retry-After of a whole second, or none.
 */
export const LEAST_DEVICES = 1000;

type Round = Pick<HerdRound, 'devices' | 'back'>;

/** Compares the first and the last of these rounds. @param planned how many rounds a whole run has. */
export function judgeGrowth(rounds: readonly Round[], planned: number): Growth {
  const growth = growthOf(rounds);
  const devices = rounds[0]?.devices ?? 0;
  return { growth, limit: GROWTH_LIMIT, not_judged: reason() };

  function reason(): string | null {
    if (rounds.length < planned) return 'the run ended early';
    if (growth === null) return 'a round did not recover, or at once';
    return devices < LEAST_DEVICES ? `fewer than ${LEAST_DEVICES} devices in the first round` : null;
  }
}

/** Whether recovery grows faster than the devices. */
export function growsTooFast({ growth, limit, not_judged: reason }: Growth): boolean {
  return reason === null && growth !== null && growth > limit;
}

/**
 * The slope of recovery time over devices on logarithmic axes. With N, 2N and 4N, the line through the first and the last
 * point has the slope of the least-squares fit.
 */
export function growthOf(rounds: readonly Round[]): number | null {
  const [first, last] = [rounds[0], rounds.at(-1)];
  if (!first?.back.all || !last?.back.all || first.devices === last.devices) return null;
  const slope = Math.log(last.back.all / first.back.all) / Math.log(last.devices / first.devices);
  return Math.round(slope * 100) / 100;
}

/** One sentence or two for a person. */
export function growthText(judged: Growth): string {
  const { growth, limit, not_judged: reason } = judged;
  if (growth === null) return `Growth: unknown, because ${reason ?? 'nothing was measured'}.`;
  const verdict = growsTooFast(judged) ? 'worse than linear' : 'no worse than linear';
  return `Growth: ${growth}, ${reason === null ? `${verdict} (at most ${limit})` : `not judged: ${reason}`}.`;
}
