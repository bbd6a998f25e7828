import type { z } from 'zod';
import { listOf } from './networks.ts';

/** CORS_ORIGINS: exact origins, separated by commas. Null for none, or after issues were added to `context`. */
export function readOrigins(value: string, context: z.RefinementCtx): string[] | null {
  const entries = listOf(value);
  const problems = entries.map(problemOf).filter((problem) => problem !== null);
  for (const message of problems) context.addIssue({ code: 'custom', message });
  return problems.length > 0 || entries.length === 0 ? null : [...new Set(entries)];
}

/** Why an entry is not an origin as browsers send it; null if it is one. */
function problemOf(entry: string): string | null {
  if (entry.includes('*')) return 'must name each origin: with * every website could call the API';
  if (entry === 'null') return 'must not hold null: sandboxed pages of every website send it';
  const url = URL.canParse(entry) ? new URL(entry) : null;
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    return 'must hold origins such as https://app.example.com, separated by commas';
  // The entry itself may hold a password.
  return url.origin === entry
    ? null
    : `must hold origins as browsers send them, without path or trailing slash: write ${url.origin}`;
}
