import type { FieldError } from './errors.ts';
import { fieldError, refuse, type Parsed } from './identifiers.ts';

/** At most so many. */
const MAX_ROLES = 32;

const ROLE = /^[a-z0-9:_-]{1,64}$/;

/** A user's roles: at most 32 different strings of `[a-z0-9:_-]{1,64}`. */
export function parseRoles(raw: unknown): Parsed<string[]> {
  if (!Array.isArray(raw)) return refuse({ code: 'type', message: 'must be a list' });
  if (raw.length > MAX_ROLES) {
    const message = `must hold at most ${MAX_ROLES} roles`;
    return refuse({ code: 'too_many', params: { max: MAX_ROLES }, message });
  }
  const isRole = (role: unknown): role is string => typeof role === 'string' && ROLE.test(role);
  if (!raw.every(isRole))
    return refuse({ code: 'format', message: 'must hold strings of 1 to 64 of a-z, 0-9, :, _ and -' });
  if (new Set(raw).size < raw.length)
    return refuse({ code: 'repeated', message: 'must not hold a role twice' });
  return { ok: true, value: raw };
}

/** The error of roles that are given and refused. */
export function roleErrors(roles: unknown): FieldError[] {
  const parsed = roles === undefined ? { ok: true as const } : parseRoles(roles);
  return parsed.ok ? [] : [fieldError('/roles', parsed)];
}
