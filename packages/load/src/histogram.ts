/** Durations in buckets of equal ratio: percentiles within 5%, in constant memory, however long the run. */
export interface Histogram {
  /** @param ms a duration in milliseconds. */
  add(ms: number): void;
  addAll(other: Histogram): void;
  count(): number;
  /** The duration that this share of all did not exceed, in milliseconds; null without any. */
  percentile(share: number): number | null;
  max(): number | null;
  /** For `addAll`. */
  buckets: Uint32Array;
  /** The buckets that are not empty, for a report. */
  toCounts(): BucketCounts;
  /** Adds the buckets of a report. @param most the longest duration of them, in milliseconds */
  addCounts(counts: BucketCounts, most: number): void;
}

/** How many durations each bucket holds, by its upper end in milliseconds, in ascending order. */
export type BucketCounts = Record<string, number>;

/** Microseconds of the first bucket; anything shorter counts as this. */
const LEAST = 10;
/** Buckets for each doubling: a ratio of 2^(1/16), 4.4%. */
const PER_DOUBLING = 16;
/** Up to 10 µs · 2^24, 168 s: longer than any timeout of the kit. */
const BUCKETS = 24 * PER_DOUBLING;

export function makeHistogram(): Histogram {
  const buckets = new Uint32Array(BUCKETS);
  let count = 0;
  let max = 0;
  return {
    buckets,
    add(ms) {
      const at = bucketOf(ms);
      buckets[at] = (buckets[at] ?? 0) + 1;
      count++;
      max = Math.max(max, ms);
    },
    addAll(other) {
      for (const [at, more] of other.buckets.entries()) {
        buckets[at] = (buckets[at] ?? 0) + more;
        count += more;
      }
      max = Math.max(max, other.max() ?? 0);
    },
    count: () => count,
    percentile(share) {
      if (count === 0) return null;
      let left = Math.max(1, Math.ceil(count * share));
      const at = buckets.findIndex((each) => (left -= each) <= 0);
      // A bucket's upper end may exceed the longest duration.
      return Math.min(upperEnd(at), max);
    },
    max: () => (count === 0 ? null : max),
    toCounts: () =>
      Object.fromEntries(
        [...buckets.entries()].flatMap(([at, each]) => (each > 0 ? [[nameOf(at), each]] : [])),
      ),
    addCounts(counts, most) {
      for (const [name, more] of Object.entries(counts)) {
        const at = atName(name);
        buckets[at] = (buckets[at] ?? 0) + more;
        count += more;
      }
      max = Math.max(max, most);
    },
  };
}

function bucketOf(ms: number): number {
  return inRange(Math.ceil(exactBucketOf(ms)));
}

/** The index of a bucket by its upper end, which a report rounds. */
function atName(name: string): number {
  return inRange(Math.round(exactBucketOf(Number(name))));
}

function nameOf(at: number): string {
  return String(Number(upperEnd(at).toPrecision(8)));
}

function exactBucketOf(ms: number): number {
  return Math.log2((ms * 1000) / LEAST) * PER_DOUBLING;
}

function inRange(at: number): number {
  return Math.min(BUCKETS - 1, Math.max(0, at));
}

function upperEnd(at: number): number {
  return (LEAST * 2 ** (at / PER_DOUBLING)) / 1000;
}
