/** Both in milliseconds. */
export interface VerifierClock {
  /** Since 1970; may jump. */
  now(): number;
  /** Never goes back; stands still while the machine is suspended. */
  monotonic(): number;
}

export const SYSTEM_CLOCK: VerifierClock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};
