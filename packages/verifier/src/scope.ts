import { insufficient } from './verifier-error.ts';

/** One scope, or several of which all are needed. */
export type Scope = string | readonly string[];

/** As Latchkey demands it of every scope. */
const NAME = /^[a-z0-9:_-]{1,64}$/;
const MOST = 32;

/** The scopes in the claim of that name (RFC 8693, section 4.2). @returns null if they do not have Latchkey's form. */
export function scopesIn(claim: unknown): readonly string[] | null {
  return typeof claim === 'string' ? scopesOf(claim.split(' ')) : null;
}

/** @throws TypeError for anything but 1 to 32 names: a list without any would demand nothing. */
export function readScope(scope: Scope): readonly string[] {
  const scopes = scopesOf(typeof scope === 'string' ? [scope] : scope);
  if (scopes) return scopes;
  throw new TypeError(`scope must be 1 to ${MOST} different names of 1 to 64 of a-z, 0-9, :, _ and -`);
}

/**
 * A limited token is good only where scopes are needed and it has all of them.
 * @param needed null for none.
 * @throws VerifierError `insufficient_scope`
 */
export function refuseOutOfScope(
  { tokenType, scopes = [] }: { readonly tokenType: string; readonly scopes?: readonly string[] },
  needed: readonly string[] | null,
): void {
  if (tokenType !== 'limited') return;
  if (!needed?.every((scope) => scopes.includes(scope))) throw insufficient(needed, scopes);
}

function scopesOf(given: unknown): readonly string[] | null {
  if (!Array.isArray(given) || given.length === 0 || given.length > MOST) return null;
  // A copy: `every` skips the holes of a list, and the caller may change the list later.
  const names: unknown[] = [...(given as unknown[])];
  const areNames = names.every((name) => typeof name === 'string' && NAME.test(name));
  return areNames && new Set(names).size === names.length ? (names as string[]) : null;
}
