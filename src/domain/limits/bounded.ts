import type { Clock, Timers } from '../clock.ts';
import type { Observe } from '../metrics/observe.ts';
import type { Queue } from '../metrics/outcomes.ts';

interface QueueLimits<Item> {
  /** In the metrics. The parts of one queue share its name and its `most`. */
  queue: Queue;
  /** How many may wait. */
  most: number;
  /** How long one may wait, in milliseconds; null if it waits until it is done. */
  patience: number | null;
  /** What counts as waiting besides the items here. */
  beside?: () => number;
  /** Drops what gives way to a new item in a full queue. @returns whether there is room now; never, by default */
  makeRoom?: (item: Item) => boolean;
  /** An item that waited was dropped. */
  onDrop?: (item: Item) => void;
}

/** Items by key, the oldest first. */
export interface BoundedQueue<Key, Item> {
  size(): number;
  isFull(): boolean;
  get(key: Key): Item | undefined;
  entries(): [Key, Item][];
  /**
   * Adds an item, or replaces the one of this key, which keeps its place.
   * @param since when it began to wait, by Clock.monotonic; now, by default.
   * @returns false if there is no room for it
   */
  set(key: Key, item: Item, since?: number): boolean;
  /** The item is done, or somebody works on it. */
  delete(key: Key): void;
  takeAll(): Item[];
  /** @returns whether the item waited. */
  drop(key: Key): boolean;
  /** @returns whether any waited. */
  dropOldest(count: number): boolean;
}

/**
 * Makes every queue that requests fill and that a store which hangs does not empty: without limits, its memory and its
 * waits would grow until the replica dies. What has no room, and what has waited for too long, is dropped and counted.
 */
export function makeBoundedQueues(ports: {
  clock: Pick<Clock, 'monotonic'>;
  timers: Timers;
  observe: Pick<Observe, 'queueDropped'>;
}) {
  const { clock, timers, observe } = ports;

  return function boundedQueue<Key, Item>(limits: QueueLimits<Item>): BoundedQueue<Key, Item> {
    const { queue, most, patience, beside = () => 0, makeRoom = () => false, onDrop } = limits;
    const waiting = new Map<Key, { item: Item; since: number }>();
    let isWatched = false;

    const isFull = () => waiting.size + beside() >= most;

    function drop(key: Key): boolean {
      const found = waiting.get(key);
      if (!found) return false;
      waiting.delete(key);
      observe.queueDropped(queue);
      onDrop?.(found.item);
      return true;
    }

    /** Drops the impatient, and comes back when the next one would be. */
    function watch(): void {
      if (patience === null || isWatched || waiting.size === 0) return;
      const oldest = Array.from(waiting.values(), ({ since }) => since).reduce((a, b) => Math.min(a, b));
      isWatched = true;
      timers.set(
        () => {
          isWatched = false;
          const since = clock.monotonic() - patience;
          for (const [key, entry] of waiting) if (entry.since <= since) drop(key);
          watch();
        },
        Math.max(1, oldest + patience - clock.monotonic()),
      );
    }

    return {
      size: () => waiting.size,
      isFull,
      get: (key) => waiting.get(key)?.item,
      entries: () => Array.from(waiting, ([key, { item }]) => [key, item]),
      set(key, item, since = clock.monotonic()) {
        const known = waiting.get(key);
        if (known) {
          known.item = item;
          return true;
        }
        if (isFull() && !makeRoom(item)) {
          observe.queueDropped(queue);
          return false;
        }
        waiting.set(key, { item, since });
        watch();
        return true;
      },
      delete: (key) => void waiting.delete(key),
      takeAll() {
        const items = Array.from(waiting.values(), ({ item }) => item);
        waiting.clear();
        return items;
      },
      drop,
      dropOldest(count) {
        const size = waiting.size;
        // Many at once: the iterator passes over all that was deleted before the oldest.
        for (const key of waiting.keys())
          if (size - waiting.size < count) drop(key);
          else break;
        return waiting.size < size;
      },
    };
  };
}

export type BoundedQueues = ReturnType<typeof makeBoundedQueues>;
