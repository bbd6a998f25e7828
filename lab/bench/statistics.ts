/** What a list of rounds comes down to: the median, and the range of the middle half. */
export interface Sample {
  median: number;
  /** The first and the third quartile. */
  low: number;
  high: number;
}

export function sampleOf(values: readonly number[]): Sample {
  return { median: median(values), low: quantile(values, 0.25), high: quantile(values, 0.75) };
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** Interpolates between the two nearest values; NaN without any. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)] ?? NaN;
  const above = sorted[Math.ceil(at)] ?? NaN;
  return below + (above - below) * (at - Math.floor(at));
}

/**
 * The rank-sum test of Mann and Whitney: whether two lists of figures come from the same distribution. It uses ranks, so
 * a round that other work delayed counts no more than others.
 * @returns the two-sided p, by the normal approximation.
 */
export function rankSum(a: readonly number[], b: readonly number[]): number {
  if (a.length === 0 || b.length === 0) return 1;
  const wins = a.reduce((sum, x) => sum + b.reduce((won, y) => won + (x > y ? 1 : x === y ? 0.5 : 0), 0), 0);
  const pairs = a.length * b.length;
  const deviation = Math.sqrt((pairs * (a.length + b.length + 1)) / 12);
  // Continuity correction: without ties, the count is a whole number.
  const z = Math.max(0, Math.abs(wins - pairs / 2) - 0.5) / deviation;
  return 2 * upperTail(z);
}

/** The upper tail of the normal distribution beyond z (Abramowitz and Stegun 26.2.17, to 7.5e-8). */
export function upperTail(z: number): number {
  const t = 1 / (1 + 0.2316419 * z);
  const sum =
    t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * sum;
}
