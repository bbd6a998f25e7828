import type { Arrivals } from './pace.ts';

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** A clock that never jumps, in milliseconds since some start. */
  monotonic(): number;
}

/** A point of a scenario's shape; the rate between two points is a straight line. */
export interface Point {
  /** The share of the run's time, from 0 to 1. */
  at: number;
  /** The share of the peak rate. */
  level: number;
}

interface Ramp {
  /** Seconds from the start. */
  from: number;
  seconds: number;
  /** Arrivals a second at both ends. */
  rates: readonly [number, number];
  /** Arrivals before it, and in it. */
  before: number;
  count: number;
}

export interface Schedule extends Arrivals {
  /** The rate at this second. */
  rateAt: (second: number) => number;
}

/**
 * Spaces arrivals evenly by the rate at each moment: arrival `i` is due when `i + ½` arrivals would have come.
 * @throws RangeError if the shape does not run from 0 to 1.
 */
export function makeSchedule(
  shape: readonly Point[],
  { rate, seconds }: { rate: number; seconds: number },
): Schedule {
  const ramps = rampsOf(shape, rate, seconds);
  const last = ramps.at(-1);
  if (shape[0]?.at !== 0 || shape.at(-1)?.at !== 1 || !last)
    throw new RangeError('the shape of a scenario runs from 0 to 1');
  const rampOf = (isIn: (ramp: Ramp) => boolean) => ramps.find(isIn) ?? last;
  return {
    total: Math.round(last.before + last.count),
    dueOf(at) {
      const wanted = at + 0.5;
      const ramp = rampOf(({ before, count }) => wanted <= before + count);
      return (ramp.from + timeOf(ramp, wanted - ramp.before)) * 1000;
    },
    rateAt(second) {
      const { from, seconds: length, rates } = rampOf((ramp) => second <= ramp.from + ramp.seconds);
      return rates[0] + ((rates[1] - rates[0]) * Math.min(second - from, length)) / length;
    },
  };
}

function rampsOf(shape: readonly Point[], rate: number, seconds: number): Ramp[] {
  const ramps: Ramp[] = [];
  let before = 0;
  for (const [i, point] of shape.slice(1).entries()) {
    const previous = shape[i];
    if (!previous || !(point.at > previous.at)) throw new RangeError('the points of a shape are in order');
    const length = (point.at - previous.at) * seconds;
    const rates = [previous.level * rate, point.level * rate] as const;
    const count = ((rates[0] + rates[1]) / 2) * length;
    ramps.push({ from: previous.at * seconds, seconds: length, rates, before, count });
    before += count;
  }
  return ramps;
}

/** Seconds into the ramp after which `count` arrivals have come: solves r₀t + (r₁ - r₀)t²/2d = count. */
function timeOf({ seconds, rates: [first, second] }: Ramp, count: number): number {
  const slope = (second - first) / seconds;
  const root = Math.sqrt(Math.max(0, first * first + 2 * slope * count));
  return first + root === 0 ? 0 : Math.min(seconds, (2 * count) / (first + root));
}
