import type { FieldError } from './errors.ts';

/** At most so many. */
const MAX_ROLES = 32;

const NAME = /^[a-z0-9:_-]{1,64}$/;

type ParsedNames = { ok: true; value: string[] } | { ok: false; message: string };

/** A user's roles: at most 32 different strings of `[a-z0-9:_-]{1,64}`. */
export function parseRoles(raw: unknown): ParsedNames {
  return parseNames(raw, MAX_ROLES, 'role');
}

/** Roles or scopes. @param what one of them, for the message. */
export function parseNames(raw: unknown, max: number, what: string): ParsedNames {
  if (!Array.isArray(raw)) return bad('must be a list');
  if (raw.length > max) return bad(`must hold at most ${max} ${what}s`);
  const isName = (name: unknown): name is string => typeof name === 'string' && NAME.test(name);
  if (!raw.every(isName)) return bad('must hold strings of 1 to 64 of a-z, 0-9, :, _ and -');
  if (new Set(raw).size < raw.length) return bad(`must not hold a ${what} twice`);
  return { ok: true, value: raw };
}

/** The error of roles that are given and refused. */
export function roleErrors(roles: unknown): FieldError[] {
  const parsed = roles === undefined ? { ok: true as const } : parseRoles(roles);
  return parsed.ok ? [] : [{ path: '/roles', message: parsed.message }];
}

function bad(message: string): ParsedNames {
  return { ok: false, message };
}
