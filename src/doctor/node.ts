import { ok, warn, type Finding } from './finding.ts';

/** The day after which a release of Node gets no fixes of security faults (nodejs.org/en/about/previous-releases). */
const END_OF_LIFE: Readonly<Record<string, string>> = {
  20: '2026-04-30',
  22: '2027-04-30',
  24: '2028-04-30',
};

/** @param version such as 24.1.0. @param now ms since 1970. */
export function checkNode(version: string, now: number): Finding {
  const [major = ''] = version.split('.');
  const end = END_OF_LIFE[major];
  if (end === undefined) return ok('node', `Node ${version}`);
  if (now <= Date.parse(`${end}T23:59:59Z`)) return ok('node', `Node ${version} gets fixes until ${end}`);
  return warn(
    'node',
    `Node ${version} has had no security fixes since ${end}`,
    'run on Node 24, as the image does',
  );
}
