/** Seconds, for the waits of clients and requests: from a verify to the longest timeout. */
export const LATENCY = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Seconds, for a round trip to Redis, which should take far less than a millisecond. */
export const ROUND_TRIP = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
];

export interface Counter {
  inc(by?: number): void;
  value(): number;
}

export interface Histogram {
  observe(value: number): void;
  value(): { buckets: { le: string; cumulative: number }[]; sum: number; count: number };
}

export function makeCounter(): Counter {
  let value = 0;
  return {
    inc(by = 1) {
      value += by;
    },
    value: () => value,
  };
}

/** @param bounds ascending and inclusive, as Prometheus expects (`le`). */
export function makeHistogram(bounds: readonly number[]): Histogram {
  // The last one counts values above all bounds.
  const counts = new Float64Array(bounds.length + 1);
  let sum = 0;
  return {
    observe(value) {
      let i = 0;
      while (i < bounds.length && value > (bounds[i] ?? Infinity)) i++;
      counts[i] = (counts[i] ?? 0) + 1;
      sum += value;
    },
    value() {
      let cumulative = 0;
      const buckets = Array.from(counts, (count, i) => {
        cumulative += count;
        return { le: i === bounds.length ? '+Inf' : String(bounds[i]), cumulative };
      });
      return { buckets, sum, count: cumulative };
    },
  };
}
