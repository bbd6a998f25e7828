import { listOf, mapTimes, type Message, type Situation } from './situation.ts';

/**
 * Time passes in steps of some seconds. Between two steps only the order counts: one microsecond per event. Times older
 * than `oldest` steps exceed every limit of the rule, so only their order is kept. So equal situations get equal
 * numbers, their number is finite, and histories of any length are explored completely.
 */
export interface Scale {
  /** Microseconds. */
  step: number;
  /** Steps after which an age exceeds every limit. */
  oldest: number;
}

/** The value of `now` in every situation; 0 is not a time (`parent` after login). */
export const stepOfNow = ({ oldest }: Scale) => oldest + 1;

/** More than the number of times in a situation. */
const RANKS = 64;

/** A situation with a key. Equal keys mean equal situations, so a known one is never built. */
export interface Normalized {
  key: string;
  /** The situation with its times moved together: equal for equal keys. */
  situation: () => Situation;
}

export function normalize(given: Situation, scale: Scale): Normalized {
  const { step } = scale;
  const shift = stepOfNow(scale) - Math.floor(given.now / step);
  const sorted = given.messages.length < 2 ? given : { ...given, messages: given.messages.toSorted(inOrder) };

  const times: number[] = [];
  const places: number[] = [];
  const list = listOf(sorted, (time, place) => {
    places.push(place);
    if (time !== 0 && !times.includes(time)) times.push(time);
    return time;
  });
  times.sort((a, b) => a - b);

  // A time's new place: its step, and the number of earlier times within the step.
  let [last, rank, ranksNow] = [-1, 0, 0];
  const moved = times.map((time) => {
    const at = Math.max(1, Math.floor(time / step) + shift);
    rank = at === last ? rank + 1 : 1;
    last = at;
    if (at === stepOfNow(scale)) ranksNow = rank;
    return at * RANKS + rank;
  });
  for (const place of places) {
    const time = list[place] ?? 0;
    list[place] = time === 0 ? 1 : 1 + (moved[times.indexOf(time)] ?? 0);
  }

  const microsOf = (code: number) => Math.floor(code / RANKS) * step + (code % RANKS);
  return {
    key: String.fromCharCode(...list),
    situation: () => ({
      ...mapTimes(sorted, (time) => (time === 0 ? 0 : microsOf(moved[times.indexOf(time)] ?? 0))),
      now: stepOfNow(scale) * step + ranksNow,
    }),
  };
}

function inOrder(a: Message, b: Message): number {
  return (
    a.at.charCodeAt(0) - b.at.charCodeAt(0) ||
    a.generation - b.generation ||
    a.arrived - b.arrived ||
    a.caller.localeCompare(b.caller) ||
    a.delay - b.delay ||
    Number(a.counts) - Number(b.counts)
  );
}
