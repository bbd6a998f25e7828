const tasks: (() => void)[] = [];

/**
 * Runs a task once this tick of the event loop has read all its sockets. A task that another one adds runs in the same
 * tick, after the others.
 */
export function atEndOfTick(task: () => void): void {
  if (tasks.push(task) === 1) setImmediate(runAll);
}

function runAll(): void {
  let done = 0;
  try {
    // The list may grow meanwhile.
    for (const task of tasks) {
      done++;
      task();
    }
  } finally {
    tasks.splice(0, done);
    // A task has thrown: the others still run.
    if (tasks.length > 0) setImmediate(runAll);
  }
}

export interface BatchOptions<Item, Result> {
  /** The most items of one call. */
  limit: () => number;
  /** @returns a result for each item, in their order. */
  run: (items: readonly Item[]) => Promise<readonly Result[]>;
}

/** Shares a call among the items of one turn of the event loop. If it fails, it fails for each of them. */
export function makeBatch<Item, Result>({
  limit,
  run,
}: BatchOptions<Item, Result>): (item: Item) => Promise<Result> {
  interface Entry {
    item: Item;
    resolve: (result: Result) => void;
    reject: (cause: unknown) => void;
  }
  let waiting: Entry[] = [];

  async function flush(): Promise<void> {
    const entries = waiting;
    if (entries.length === 0) return;
    waiting = [];
    try {
      const results = await run(entries.map(({ item }) => item));
      if (results.length !== entries.length)
        throw new Error(`${results.length} results for ${entries.length} items`);
      entries.forEach(({ resolve }, i) => {
        resolve(results[i] as Result);
      });
    } catch (cause) {
      for (const { reject } of entries) reject(cause);
    }
  }

  return (item) =>
    new Promise((resolve, reject) => {
      const count = waiting.push({ item, resolve, reject });
      if (count >= limit()) void flush();
      else if (count === 1) atEndOfTick(() => void flush());
    });
}
