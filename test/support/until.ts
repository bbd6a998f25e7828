import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves as soon as the condition holds. Only the test's own timeout limits the wait. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await sleep(5);
}

/**
 * Resolves as soon as `check` returns null.
 * @throws Error with its last result, if that takes longer than this many seconds.
 */
export async function eventually(seconds: number, check: () => Promise<string | null>): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const missing = await check();
    if (missing === null) return;
    if (performance.now() > deadline) throw new Error(`not within ${seconds} s: ${missing}`);
    await sleep(100);
  }
}
