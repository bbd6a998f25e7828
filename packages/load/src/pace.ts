/** The arrivals of an open loop. */
export interface Arrivals {
  total: number;
  /** Milliseconds from the start to arrival number `at`, which counts from 0. Never decreases. */
  dueOf: (at: number) => number;
}

/**
 * Calls `send` for each arrival when it is due. If this process stalls, it sends all that was due meanwhile at once.
 * @param start by performance.now().
 * @param send gets the due time by performance.now(), and the present one.
 * @returns when the last arrival was sent, or at the first tick after `isOver` is true.
 */
export function pace(
  start: number,
  { total, dueOf }: Arrivals,
  send: (due: number, now: number) => void,
  isOver: () => boolean = () => false,
): Promise<void> {
  return new Promise((resolve) => {
    let sent = 0;
    const tick = () => {
      const now = performance.now();
      for (; sent < total; sent++) {
        const due = start + dueOf(sent);
        if (due > now) break;
        send(due, now);
      }
      if (sent < total && !isOver()) setTimeout(tick, 1);
      else resolve();
    };
    tick();
  });
}
