import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Resolves as soon as `check` returns null.
 * @throws Error with what it returned last, where that takes longer than so many seconds.
 */
export async function eventually(seconds: number, check: () => Promise<string | null>): Promise<void> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const missing = await check();
    if (missing === null) return;
    if (performance.now() > deadline) throw new Error(`still not, after ${seconds} s: ${missing}`);
    await sleep(100);
  }
}
