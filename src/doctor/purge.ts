import { ok, warn, type Finding } from './finding.ts';

const CHECK = 'purge';
const DAY = 86_400_000;
/** The alert LatchkeyPurgeOverdue has the same. */
const OVERDUE = 3 * DAY;

/** @param last when one last succeeded, and now: ms since 1970. Null if none has yet. */
export function judgePurge(last: number | null, now: number): Finding {
  const todo = 'run `latchkey purge` every night, and look why it failed (docs/operating.md, "What is kept")';
  if (last === null) return warn(CHECK, 'none has succeeded yet', todo);
  const found = `the last one succeeded at ${new Date(last).toISOString()}`;
  return now - last > OVERDUE ? warn(CHECK, found, todo) : ok(CHECK, found);
}
