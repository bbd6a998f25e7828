import type { SkeletonFacts } from '../infra/postgres/name-skeletons.ts';
import { ok, warn, type Finding } from './finding.ts';

/** Checks that all accounts have skeletons, so that signups with look-alike usernames can be refused. */
export function judgeNames({ missing, colliding }: SkeletonFacts): Finding {
  if (missing === 0) return ok('usernames', 'no two accounts have usernames that look alike');
  const ids = colliding.join(', ');
  if (missing === colliding.length) {
    const found = `${missing} accounts have a username that looks like one of an older account: ids ${ids}`;
    return warn(
      'usernames',
      found,
      'check whether they impersonate the older accounts, and disable those that do',
    );
  }
  const alike = colliding.length === 0 ? '' : `; ids ${ids} look like an older account`;
  return warn(
    'usernames',
    `${missing} accounts have no skeleton yet, so a new account may look like them${alike}`,
    'run `npx latchkey user skeletons`, once no replica of an earlier release runs',
  );
}
