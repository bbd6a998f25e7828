import { refuse, type Parsed } from './identifiers.ts';

/** At most so many. */
const MAX_ROLES = 32;

const NAME = /^[a-z0-9:_-]{1,64}$/;

/** A user's roles: at most 32 different strings of `[a-z0-9:_-]{1,64}`. */
export function parseRoles(raw: unknown): Parsed<string[]> {
  return parseNames(raw, MAX_ROLES, 'role');
}

/** Roles or scopes. @param what one of them, for the message. */
export function parseNames(raw: unknown, max: number, what: string): Parsed<string[]> {
  if (!Array.isArray(raw)) return refuse({ code: 'type', message: 'must be a list' });
  if (raw.length > max)
    return refuse({ code: 'too_many', params: { max }, message: `must hold at most ${max} ${what}s` });
  const isName = (name: unknown): name is string => typeof name === 'string' && NAME.test(name);
  if (!raw.every(isName))
    return refuse({ code: 'format', message: 'must hold strings of 1 to 64 of a-z, 0-9, :, _ and -' });
  if (new Set(raw).size < raw.length)
    return refuse({ code: 'repeated', message: `must not hold a ${what} twice` });
  return { ok: true, value: raw };
}
