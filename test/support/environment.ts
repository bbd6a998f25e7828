import type { Environment } from '../../src/config/config.ts';

/** With CI=true no suite may skip: a missing program is a failure. */
export const isCi = process.env.CI === 'true';

/** The reason for tap's `skip`: what is missing and how to get it. @throws Error with CI=true. */
export function skipReason(missing: string | null): false | string {
  if (missing === null) return false;
  if (isCi) throw new Error(`CI=true, and ${missing}`);
  return missing;
}

/** Fault, model and fuzz tests scale their counts by this factor. */
export const testScale = Number(process.env.TEST_SCALE ?? 1);

/** For tests without data: not even root can make a folder below a file. The default is the checkout's `.data`. */
export const NO_DATA_DIR = '/dev/null/data';

/** The environment of a process that a test starts: the basics, without other variables of the caller. */
export function bareEnvironment(env: Environment = {}): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, ...(TMPDIR && { TMPDIR }), DATA_DIR: NO_DATA_DIR, ...env };
}
