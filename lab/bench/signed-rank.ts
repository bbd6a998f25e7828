import { upperTail } from './statistics.ts';

/**
 * Wilcoxon's signed-rank test: whether paired differences lie around 0. It uses ranks, so a few delayed answers
 * count no more than others.
 * @returns the two-sided p, by the normal approximation.
 */
export function signedRank(differences: readonly number[]): number {
  const ranked = differences.filter((each) => each !== 0).sort((a, b) => Math.abs(a) - Math.abs(b));
  const n = ranked.length;
  if (n === 0) return 1;
  const positive = ranked.reduce((sum, each, i) => sum + (each > 0 ? i + 1 : 0), 0);
  const deviation = Math.sqrt((n * (n + 1) * (2 * n + 1)) / 24);
  // Continuity correction: ranks are whole numbers.
  const z = Math.max(0, Math.abs(positive - (n * (n + 1)) / 4) - 0.5) / deviation;
  return 2 * upperTail(z);
}

/**
 * The power of the test: how often runs with the noise of these differences would show that all are larger by `shift`.
 * @param random returns a number from 0 up to, but not including, 1.
 */
export function powerOf(
  differences: readonly number[],
  { shift, alpha, random = Math.random }: { shift: number; alpha: number; random?: () => number },
): number {
  const middle = [...differences].sort((a, b) => a - b)[differences.length >> 1] ?? 0;
  const noise = differences.map((each) => each - middle);
  const RUNS = 1000;
  let found = 0;
  for (let run = 0; run < RUNS; run++) {
    const drawn = noise.map(() => (noise[Math.floor(random() * noise.length)] ?? 0) + shift);
    if (signedRank(drawn) < alpha) found++;
  }
  return found / RUNS;
}
