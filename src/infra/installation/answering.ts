/**
 * For how long PostgreSQL has answered. While it was away, replicas that serve could not show that they do, so their
 * silence in its record says nothing until it has answered for some time.
 */
export interface Answering {
  answered(): void;
  failed(): void;
  /** In milliseconds, since the first answer after the last failure; null if there was none. */
  since(): number | null;
}

/** @param monotonic milliseconds; only differences count. */
export function makeAnswering(monotonic: () => number): Answering {
  let begin: number | null = null;
  return {
    answered() {
      begin ??= monotonic();
    },
    failed() {
      begin = null;
    },
    since: () => (begin === null ? null : monotonic() - begin),
  };
}
