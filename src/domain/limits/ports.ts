/** `count` attempts in any window of `seconds` seconds. */
export interface Allowance {
  count: number;
  seconds: number;
}

/**
 * Slots for attempts, shared by all replicas. A slot is taken before its attempt begins, so that concurrent attempts
 * cannot get past the limit together.
 */
export interface AttemptSlots {
  /**
   * Takes a slot of a counter, if one is free. It becomes free after the window, even if the process dies before.
   * @returns the slot and how many were taken before, or the milliseconds until one is free.
   * @throws AuthError `unavailable`
   */
  reserve(
    counter: string,
    allowance: Allowance,
  ): Promise<{ slot: string; earlier: number } | { freeIn: number }>;
  /**
   * Gives a slot back: its attempt does not count. A no-op if the slot is free already.
   * @throws AuthError `unavailable`
   */
  release(counter: string, slot: string): Promise<void>;
}
