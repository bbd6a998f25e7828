import type { z } from 'zod';
import type { LoggedRequests, RequestGroup } from '../telemetry/request-lines.ts';
import { listOf } from './networks.ts';

/** The groups of routes that LOG_REQUESTS names, and which of their requests leave a line by default. */
const DEFAULTS: Readonly<Record<RequestGroup, LoggedRequests>> = {
  verify: 'failures',
  introspection: 'failures',
  refresh: 'failures',
  documents: 'failures',
  other: 'all',
};

const CHOICES: readonly LoggedRequests[] = ['all', 'failures', 'none'];

/** `all`, or `verify=all,refresh=none`: choices for all groups or for one, separated by commas; the last one counts. */
export function readRequestLog(
  value: string,
  context: z.RefinementCtx,
): Record<RequestGroup, LoggedRequests> {
  const chosen = { ...DEFAULTS };
  const groups = Object.keys(DEFAULTS) as RequestGroup[];
  for (const entry of listOf(value)) {
    const [, group, choice] = /^(?:(\w+)=)?(\w+)$/.exec(entry) ?? [];
    const named = groups.filter((each) => group === undefined || each === group);
    const logged = CHOICES.find((each) => each === choice);
    if (named.length === 0 || logged === undefined) {
      const message = `must be all, failures or none, or a list such as verify=all,refresh=none of ${groups.join(', ')}`;
      context.addIssue({ code: 'custom', message });
      break;
    }
    for (const each of named) chosen[each] = logged;
  }
  return chosen;
}
