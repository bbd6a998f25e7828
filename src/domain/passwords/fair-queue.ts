/** Waiting items, by key. The keys take turns: each turn serves the oldest item of one key. */
export interface FairQueue<Item> {
  size(): number;
  /** The place at which a new item of this key would be served, from 1 on, if no further item came. */
  placeOf(key: string): number;
  /**
   * The key that loses an item to make room for a new one of `newcomer`: the key with most items, counting the new one.
   * It is `newcomer` unless another key has more.
   */
  largest(newcomer: string): string;
  add(key: string, item: Item): void;
  /** Takes the item whose turn it is. */
  takeNext(): Item | undefined;
  /** Takes the newest item of this key. */
  takeNewest(key: string): Item | undefined;
  remove(key: string, item: Item): void;
}

/**
 * Round-robin: however many items one key has, the first item of another key waits for one of them at most.
 *
 * The map holds each key's items, oldest first. Its order is the order of turns: a new key goes to the end, and so does
 * a key that was served and has more items.
 */
export function makeFairQueue<Item>(): FairQueue<Item> {
  const lines = new Map<string, Item[]>();
  let size = 0;

  /** Counts the removal of an item, and drops its key if no items are left. */
  function shrink(key: string, line: readonly Item[]): void {
    size--;
    if (line.length === 0) lines.delete(key);
  }

  return {
    size: () => size,

    placeOf(key) {
      const own = lines.get(key)?.length ?? 0;
      let isBefore = true;
      let ahead = own;
      for (const [other, line] of lines) {
        if (other === key) isBefore = false;
        // A key ahead of this one has one more turn before the new item.
        else ahead += Math.min(line.length, isBefore ? own + 1 : own);
      }
      return ahead + 1;
    },

    largest(newcomer) {
      let largest = newcomer;
      let most = (lines.get(newcomer)?.length ?? 0) + 1;
      for (const [key, line] of lines) {
        if (line.length > most) [largest, most] = [key, line.length];
      }
      return largest;
    },

    add(key, item) {
      const line = lines.get(key);
      if (line) line.push(item);
      else lines.set(key, [item]);
      size++;
    },

    takeNext() {
      for (const [key, line] of lines) {
        const item = line.shift();
        lines.delete(key);
        lines.set(key, line);
        shrink(key, line);
        return item;
      }
      return undefined;
    },

    takeNewest(key) {
      const line = lines.get(key);
      if (!line) return undefined;
      const item = line.pop();
      shrink(key, line);
      return item;
    },

    remove(key, item) {
      const line = lines.get(key);
      const index = line?.indexOf(item) ?? -1;
      if (!line || index === -1) return;
      line.splice(index, 1);
      shrink(key, line);
    },
  };
}
