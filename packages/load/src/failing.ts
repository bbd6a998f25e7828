import { LoadError } from './load-error.ts';

/** Ends a run at the first error of a device, which would otherwise stand still unseen. */
export interface Failing {
  fail: (error: unknown) => void;
  /** @throws LoadError with the first error, if there was one */
  check(): void;
}

/** @param end stops all devices. */
export function makeFailing(end: () => void): Failing {
  let failure: LoadError | null = null;
  return {
    fail(error) {
      const { message } = error as Error;
      failure ??= new LoadError(`a device cannot go on, so the run ended: ${message}`, { cause: error });
      end();
    },
    check() {
      if (failure) throw failure;
    },
  };
}
