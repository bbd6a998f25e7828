import { median, rankSum } from './statistics.ts';

/** Significance level: chance alone makes two lists of rounds differ as much less often than this. */
const ALPHA = 0.02;
/** Smaller changes are not reported: two runs of one build differ as much. */
const LEAST_CHANGE = 0.1;
/** A run says something only if it would report a change as large as this. */
const MUST_FIND = 0.2;

export type Verdict = 'slower' | 'faster' | 'same' | 'too noisy';

export interface Change {
  /** The relative change of the median: -0.2 is a fifth less. */
  change: number;
  p: number;
  verdict: Verdict;
}

/**
 * The ratio to the yardstick, round by round. Both servers of a round ran within seconds, so a busy moment of the machine
 * slows both.
 */
export function sharesOf(rounds: readonly { service: number; yardstick: number }[]): number[] {
  return rounds.map(({ service, yardstick }) => service / yardstick);
}

/**
 * Compares the shares of a run with those of an earlier one. A change is reported if the medians differ by at least 10%
 * and chance does not explain the difference. If neither a change is found nor one of 20% would have been, the rounds are
 * too noisy to say anything.
 */
export function compare(now: readonly number[], then: readonly number[]): Change {
  const change = median(now) / median(then) - 1;
  const p = rankSum(now, then);
  return { change, p, verdict: verdictOf(now, then, change, p) };
}

function verdictOf(now: readonly number[], then: readonly number[], change: number, p: number): Verdict {
  if (p < ALPHA && Math.abs(change) >= LEAST_CHANGE) return change < 0 ? 'slower' : 'faster';
  return wouldFind(now, then) ? 'same' : 'too noisy';
}

/** Whether rounds with this noise would show that the later ones are slower by a fifth. */
function wouldFind(now: readonly number[], then: readonly number[]): boolean {
  const slower = centred(now).map((each) => each * (1 - MUST_FIND));
  return rankSum(slower, centred(then)) < ALPHA;
}

function centred(values: readonly number[]): number[] {
  const middle = median(values);
  return values.map((each) => each / middle);
}
