import { isRefusal, LatchkeyError } from './latchkey-error.ts';

/** Milliseconds: how long a call goes on. */
const PATIENCE = 15_000;
/** Milliseconds: the first and the longest wait if the answer names none, and the longest that an answer can ask for. */
const [FIRST, LONGEST, LONGEST_ASKED] = [250, 8000, 60_000];

/** When the next try may be sent, for all calls that wait for the same thing. */
export function makePace() {
  let notBefore = 0;
  let failures = 0;
  let lastError: LatchkeyError | undefined;

  const error = () => lastError ?? new LatchkeyError('no_answer', 'no answer yet');
  /** Milliseconds. A longer wait than we ever ask for means that this device’s clock was set back. */
  function wait(): number {
    const left = notBefore - Date.now();
    return left > LONGEST_ASKED ? 0 : Math.max(0, left);
  }

  return {
    lastError: error,
    wait,
    /** @throws the last error if the wait after it is not over */
    check() {
      if (wait() > 0) throw error();
    },
    async run<Result>(work: () => Promise<Result>): Promise<Result> {
      try {
        const result = await work();
        failures = 0;
        return result;
      } catch (error) {
        if (!isTemporary(error)) throw error;
        lastError = error;
        const { retryAfter } = error;
        const jitter = Math.random() * Math.min(LONGEST, FIRST * 2 ** failures++);
        notBefore = Date.now() + (retryAfter ? Math.min(retryAfter * 1000, LONGEST_ASKED) : jitter);
        throw error;
      }
    },
  };
}

/**
 * Repeats work until it succeeds or Latchkey refuses. Each try is one run at the pace.
 * @param signal of the caller
 * @throws the last error after 15 s, or at once if the pace asks for a longer wait; the signal’s reason
 */
export async function insist<Result>(
  pace: Pick<ReturnType<typeof makePace>, 'lastError' | 'wait'>,
  attempt: () => Promise<Result>,
  signal?: AbortSignal | null,
): Promise<Result> {
  let [isOver, waited] = [false, 0];
  let cut = (_reason: unknown): void => undefined;
  const over = new Promise<never>((_resolve, reject) => (cut = reject));
  const giveUp = (reason: unknown) => {
    isOver = true;
    cut(reason);
  };
  const patience = setTimeout(() => {
    giveUp(pace.lastError());
  }, PATIENCE);
  const onAbort = () => {
    // React Native’s signals have no reason.
    giveUp(signal?.reason ?? Object.assign(new Error('aborted'), { name: 'AbortError' }));
  };
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort);
  let waiting: ReturnType<typeof setTimeout> | undefined;

  async function tries(): Promise<Result> {
    while (!isOver) {
      const wait = pace.wait();
      waited += wait;
      if (waited >= PATIENCE) break;
      if (wait > 0) await new Promise((resolve) => (waiting = setTimeout(resolve, wait)));
      try {
        return await attempt();
      } catch (error) {
        if (!isTemporary(error)) throw error;
      }
    }
    throw pace.lastError();
  }

  try {
    return await Promise.race([over, tries()]);
  } finally {
    isOver = true;
    clearTimeout(patience);
    clearTimeout(waiting);
    signal?.removeEventListener('abort', onAbort);
  }
}

/** Whether the error says nothing about the session. */
function isTemporary(error: unknown): error is LatchkeyError {
  if (!(error instanceof LatchkeyError) || isRefusal(error)) return false;
  return !['signed_out', 'storage_failed'].includes(error.code);
}
