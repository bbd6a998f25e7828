import type { Timers } from '../clock.ts';

/** Waiting items in lines by key. A path names a line: one key a level, the outermost first. */
export interface FairQueue<Item> {
  /** How many items wait, or how many wait below this path. */
  size(path?: readonly string[]): number;
  /** The place at which a new item of this path would be served, from 1 on, if no further item came. */
  placeOf(path: readonly string[]): number;
  /**
   * The item that gives way to a new one of this path: on each level the key with most items loses, counting the new
   * one, and of its items the newest. Undefined if that is the new one.
   * @param path null if the new item is elsewhere.
   */
  loserTo(path: readonly string[] | null): Item | undefined;
  add(path: readonly string[], item: Item): void;
  /** Takes the item whose turn it is. */
  takeNext(): Item | undefined;
  /** Removes an item that waits. */
  remove(path: readonly string[], item: Item): void;
}

/**
 * Hierarchical round-robin: keys take turns, and each turn serves one item of the key's line, which is a round-robin
 * itself or first in, first out. While an item of one key waits, each other key of its level is served once at most
 * between two of its turns, however many items and keys that one has.
 *
 * The map's order is the order of turns: a new key goes to the end, and so does a key that was served and has more.
 */
export function makeRoundRobin<Item>(makeLine: () => FairQueue<Item>): FairQueue<Item> {
  const lines = new Map<string, FairQueue<Item>>();
  let size = 0;

  return {
    size: ([key, ...rest] = []) => (key === undefined ? size : (lines.get(key)?.size(rest) ?? 0)),

    // Stryker disable next-line StringLiteral: a path has a key for each level
    placeOf([key = '', ...rest]) {
      const turn = lines.get(key)?.placeOf(rest) ?? 1;
      let isBefore = true;
      let place = turn;
      for (const [other, line] of lines) {
        if (other === key) isBefore = false;
        // A key ahead of this one has one more turn before the new item.
        else place += Math.min(line.size(), isBefore ? turn : turn - 1);
      }
      return place;
    },

    loserTo(path) {
      const [key, ...rest] = path ?? [];
      let largest = key;
      let most = key === undefined ? 0 : (lines.get(key)?.size() ?? 0) + 1;
      for (const [other, line] of lines) {
        // Of equals the last in turn, but never one for an equal new item.
        if (line.size() > most || (line.size() === most && largest !== key))
          [largest, most] = [other, line.size()];
      }
      // Stryker disable next-line StringLiteral: no line has this key
      return lines.get(largest ?? '')?.loserTo(largest === key ? rest : null);
    },

    // Stryker disable next-line StringLiteral: a path has a key for each level
    add([key = '', ...rest], item) {
      const line = lines.get(key) ?? makeLine();
      lines.set(key, line);
      line.add(rest, item);
      size++;
    },

    takeNext() {
      for (const [key, line] of lines) {
        const item = line.takeNext();
        lines.delete(key);
        if (line.size() > 0) lines.set(key, line);
        size--;
        return item;
      }
      return undefined;
    },

    // Stryker disable next-line StringLiteral: a path has a key for each level
    remove([key = '', ...rest], item) {
      const line = lines.get(key);
      // Stryker disable next-line OptionalChaining: an item that waits has a line
      line?.remove(rest, item);
      // Stryker disable next-line OptionalChaining: as above
      if (line?.size() === 0) lines.delete(key);
      size--;
    },
  };
}

/** First in, first out: the innermost level, where paths are empty. */
export function makeFifo<Item>(): FairQueue<Item> {
  const items: Item[] = [];
  return {
    size: () => items.length,
    placeOf: () => items.length + 1,
    loserTo: (path) => (path ? undefined : items.at(-1)),
    add: (_path, item) => void items.push(item),
    takeNext: () => items.shift(),
    remove: (_path, item) => void items.splice(items.indexOf(item), 1),
  };
}

/** Somebody who waits for a turn that another hands over. */
export interface Waiter {
  start: () => void;
  /** `dropped`: it gave way to a new one. */
  giveUp: (reason: 'dropped' | 'timeout') => void;
}

interface Wait {
  timers: Timers;
  /** Milliseconds. */
  patience: number;
  /** What giving up tells the one who waited. It does not wait any more then. */
  refusalOf: (reason: 'dropped' | 'timeout') => Error;
}

/** Waits in a line until somebody takes the waiter from it and starts it. */
export function waitForTurn(
  line: FairQueue<Waiter>,
  path: readonly string[],
  { timers, patience, refusalOf }: Wait,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const waiter: Waiter = {
      start: () => {
        timers.clear(timer);
        resolve();
      },
      giveUp: (reason) => {
        timers.clear(timer);
        line.remove(path, waiter);
        reject(refusalOf(reason));
      },
    };
    const timer = timers.set(() => {
      waiter.giveUp('timeout');
    }, patience);
    line.add(path, waiter);
  });
}
