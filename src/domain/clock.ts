/** The process's clocks, passed in so that tests decide what time it is. */
export interface Clock {
  /** Wall clock, in milliseconds since 1970. */
  now(): number;
  /** A clock that never jumps, in milliseconds since some start; only differences mean anything. */
  monotonic(): number;
}
