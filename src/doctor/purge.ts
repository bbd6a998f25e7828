import type { LastPurge } from '../infra/postgres/last-purge.ts';
import { ok, warn, type Finding } from './finding.ts';

const CHECK = 'purge';
const DAY = 86_400_000;
/** The alert LatchkeyPurgeOverdue has the same. */
const OVERDUE = 3 * DAY;

/** @param now milliseconds since 1970. */
export function judgePurge({ at, hasRun }: LastPurge, now: number): Finding {
  const time = new Date(at).toISOString();
  const found = hasRun ? `the last one succeeded at ${time}` : `none has succeeded since ${time}`;
  if (now - at <= OVERDUE) return ok(CHECK, found);
  const todo = 'run `latchkey purge` every night, and see why it failed (docs/operating.md, "What is kept")';
  return warn(CHECK, found, todo);
}
