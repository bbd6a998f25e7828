import { setTimeout as sleep } from 'node:timers/promises';

/** Far longer than anything takes on a busy machine: a wait that never ends should say for what. */
const LIMIT = 240_000;

/** Resolves as soon as the condition holds. @throws Error with its text if it never does */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + LIMIT;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`it never came: ${String(condition)}`);
    await sleep(5);
  }
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
