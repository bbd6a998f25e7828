import { deferred } from './deferred.ts';

export interface Stopped<Work> {
  /** The same function, but its first result is delayed. */
  work: Work;
  /** Resolves when the first call has its result and holds it. */
  reached: Promise<void>;
  /** Releases the result. */
  go: () => void;
}

/** Pauses between a function's result and its use by the caller, to force a race. */
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
