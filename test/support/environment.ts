/** With CI=true nothing may be left out: what a suite needs and cannot find is a failure there, and not a skip. */
export const isCi = process.env.CI === 'true';

/** What could not be found, in words that say how to get it; for tap's `skip`, which prints them. */
export function leaveOut(missing: string | null): false | string {
  if (missing === null) return false;
  if (isCi) throw new Error(`CI=true, and ${missing}`);
  return missing;
}

/** Fault, model and fuzz tests scale their counts by this factor. */
export const testScale = Number(process.env.TEST_SCALE ?? 1);
