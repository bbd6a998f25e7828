import { listOf, mapTimes, type Message, type Situation } from './situation.ts';

/**
 * Time passes in steps of some seconds, and between two steps there is an order and no more: one microsecond an event.
 * What is older than `oldest` steps is too old for every limit of the rule, so that only its order is kept. By that, equal
 * situations get equal numbers, there are finitely many, and histories of any length are explored to the end.
 */
export interface Scale {
  /** Microseconds. */
  step: number;
  /** Steps after which an age means nothing any more. */
  oldest: number;
}

/** Where `now` stands in every situation; 0 is not a time (`parent` after login). */
export const stepOfNow = ({ oldest }: Scale) => oldest + 1;

/** More than there are times in a situation. */
const RANKS = 64;

/** A situation, and how to tell whether it is like another: by its key, before anything is built. */
export interface Normalized {
  key: string;
  /** The same with its times moved together: equal for all that have the same key. */
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

  // A time's new place: its step, and how many there are before it within the step.
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
    a.client.localeCompare(b.client) ||
    a.delay - b.delay ||
    Number(a.counts) - Number(b.counts)
  );
}
