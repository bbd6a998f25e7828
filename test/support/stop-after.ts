export interface Stopped<Work> {
  /** The same function, but that the first answer is held back. */
  work: Work;
  /** Resolves when the first call has its answer, and holds it. */
  reached: Promise<void>;
  /** Lets it go. */
  go: () => void;
}

/** Stops between what a function has found out and what its caller does with it: a race, forced and not hoped for. */
export function stopAfter<Args extends unknown[], Result>(
  original: (...args: Args) => Promise<Result>,
): Stopped<(...args: Args) => Promise<Result>> {
  const { promise: reached, resolve: isReached } = deferred();
  const { promise: mayGo, resolve: go } = deferred();
  let isFirst = true;
  const work = async (...args: Args) => {
    const mine = isFirst;
    isFirst = false;
    const result = await original(...args);
    if (mine) {
      isReached();
      await mayGo;
    }
    return result;
  };
  return { work, reached, go };
}

function deferred() {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
