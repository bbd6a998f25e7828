import type { FieldError } from './errors.ts';

/** At most so many. */
const MAX_ROLES = 32;

const ROLE = /^[a-z0-9:_-]{1,64}$/;

type ParsedRoles = { ok: true; value: string[] } | { ok: false; message: string };

/** A user's roles: at most 32 different strings of `[a-z0-9:_-]{1,64}`. */
export function parseRoles(raw: unknown): ParsedRoles {
  if (!Array.isArray(raw)) return bad('must be a list');
  if (raw.length > MAX_ROLES) return bad(`must hold at most ${MAX_ROLES} roles`);
  const isRole = (role: unknown): role is string => typeof role === 'string' && ROLE.test(role);
  if (!raw.every(isRole)) return bad('must hold strings of 1 to 64 of a-z, 0-9, :, _ and -');
  if (new Set(raw).size < raw.length) return bad('must not hold a role twice');
  return { ok: true, value: raw };
}

/** The error of roles that are given and refused. */
export function roleErrors(roles: unknown): FieldError[] {
  const parsed = roles === undefined ? { ok: true as const } : parseRoles(roles);
  return parsed.ok ? [] : [{ path: '/roles', message: parsed.message }];
}

function bad(message: string): ParsedRoles {
  return { ok: false, message };
}
