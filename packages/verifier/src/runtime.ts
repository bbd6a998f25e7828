/** What differs between runtimes. All other files use only what each of them has: `fetch`, WebCrypto and the like. */

export type Timer = ReturnType<typeof setTimeout>;

/** A timer that lets the process end, where timers can. */
export function setBackgroundTimeout(run: () => void, ms: number): Timer {
  const timer = setTimeout(run, ms);
  (timer as { unref?: () => void }).unref?.();
  return timer;
}

/** Resolves after the time, or when the signal aborts. Lets the process end, too. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setBackgroundTimeout(end, ms);
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}

/** Node prints it with the process's id, and a service may listen to the event `warning`. */
export function warn({ message }: Pick<Error, 'message'>): void {
  const { process } = globalThis as { process?: Partial<NodeJS.Process> };
  if (process?.emitWarning) process.emitWarning(message, 'LatchkeyVerifier');
  else console.warn(`LatchkeyVerifier: ${message}`);
}
