import { atEndOfTurn } from './end-of-turn.ts';

interface Waiting<Item, Answer> {
  items: Item[];
  settlers: { resolve: (answer: Answer) => void; reject: (cause: unknown) => void }[];
}

export interface BatchOptions<Item, Reply, Answer> {
  /** The most items that one call sends. */
  limit: () => number;
  /** @returns one reply for each item, in order. If it rejects, the call of every item rejects. */
  send: (items: Item[]) => Promise<Reply[]>;
  /** If it throws, only the call of this item rejects. */
  decode: (item: Item, reply: Reply) => Answer;
}

/** Collects the calls of one turn of the event loop, and sends them together. */
export function makeBatch<Item, Reply, Answer>({ limit, send, decode }: BatchOptions<Item, Reply, Answer>) {
  let waiting: Waiting<Item, Answer> = { items: [], settlers: [] };

  async function flush(): Promise<void> {
    const { items, settlers } = waiting;
    if (items.length === 0) return;
    waiting = { items: [], settlers: [] };
    try {
      const replies = await send(items);
      if (replies.length !== items.length)
        throw new Error(`${replies.length} replies for ${items.length} items`);
      settlers.forEach(({ resolve, reject }, i) => {
        try {
          resolve(decode(items[i] as Item, replies[i] as Reply));
        } catch (cause) {
          reject(cause);
        }
      });
    } catch (cause) {
      for (const { reject } of settlers) reject(cause);
    }
  }

  return function call(item: Item): Promise<Answer> {
    return new Promise((resolve, reject) => {
      waiting.settlers.push({ resolve, reject });
      const count = waiting.items.push(item);
      if (count >= limit()) void flush();
      else if (count === 1) atEndOfTurn(() => void flush());
    });
  };
}
