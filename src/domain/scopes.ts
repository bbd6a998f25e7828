import { refuse, type Parsed } from './identifiers.ts';
import { parseNames } from './roles.ts';

/** At most so many in a token, and in the path of a verify. */
export const MAX_SCOPES = 32;

/** The most characters of so many, with separators. */
export const SCOPE_MAX_LENGTH = MAX_SCOPES * 65 - 1;

/**
 * The scopes of a limited token: 1 to 32 different names in the characters of a role. A user chooses them freely, so
 * they narrow what the user may do, and never grant anything.
 */
export function parseScopes(raw: unknown): Parsed<string[]> {
  const parsed = parseNames(raw, MAX_SCOPES, 'scope');
  return parsed.ok && parsed.value.length === 0
    ? refuse({ code: 'required', message: 'must hold at least one scope' })
    : parsed;
}

/** The scopes in a text that names them with `separator` between. @returns null unless all of it has that form. */
export function scopesIn(text: unknown, separator: string): readonly string[] | null {
  const parsed = typeof text === 'string' ? parseScopes(text.split(separator)) : null;
  return parsed?.ok ? parsed.value : null;
}

/** Whether all scopes that are needed are among those that were given. */
export function isInScope(given: readonly string[], needed: readonly string[]): boolean {
  return needed.every((scope) => given.includes(scope));
}
