import { addressAsGiven, canonicalAddress, isMailbox } from './address.ts';
import type { FieldError } from './errors.ts';

/**
 * The canonical forms of user input. Lengths are in code points after normalisation. Each function returns the
 * canonical value or an error message that does not contain the value.
 */
export type Parsed = { ok: true; value: string } | { ok: false; message: string };

const CONTROL = /\p{Cc}/u;
const WHITESPACE = /[\s\p{White_Space}]/u;

/** NFKC, trimmed, lower-cased; 1 to 64 characters, no whitespace, control characters or `@`. */
export function parseUsername(raw: string): Parsed {
  const value = canonicalUsername(raw);
  if (!raw.isWellFormed()) return bad('must be well-formed Unicode');
  if (value === '') return bad('must not be blank');
  if (lengthOf(value) > 64) return bad('must have at most 64 characters');
  if (WHITESPACE.test(value) || CONTROL.test(value) || value.includes('@')) {
    return bad('must not hold whitespace, control characters or @');
  }
  return { ok: true, value };
}

/**
 * As its owner gave it, trimmed and in NFC; at most 254 characters, and a mailbox of RFC 5321 without quotes. For new
 * addresses: `parseLoginName` reads those that exist.
 */
export function parseEmail(raw: string): Parsed {
  const value = addressAsGiven(raw);
  const problem = textProblem(raw, value);
  if (problem !== null) return bad(problem);
  return isMailbox(value) ? { ok: true, value } : bad('must be an e-mail address');
}

function textProblem(raw: string, value: string): string | null {
  if (!raw.isWellFormed()) return 'must be well-formed Unicode';
  if (lengthOf(value) > 254) return 'must have at most 254 characters';
  return WHITESPACE.test(value) || CONTROL.test(value)
    ? 'must not hold whitespace or control characters'
    : null;
}

/** A person's or a device's name: trimmed, 1 to 128 characters, no control characters. */
export function parseLabel(raw: string): Parsed {
  const value = raw.trim();
  if (!raw.isWellFormed()) return bad('must be well-formed Unicode');
  if (value === '') return bad('must not be blank');
  if (lengthOf(value) > 128) return bad('must have at most 128 characters');
  if (CONTROL.test(value)) return bad('must not hold control characters');
  return { ok: true, value };
}

/** A login's name: a username, or an e-mail address if it contains an `@`. */
export type LoginName = { username: string } | { email: string };

/** Names an account: by username or e-mail address in its canonical form, or by id. */
export type AccountKey = LoginName | { id: number };

/**
 * Reads the name at login. If no account can have this name the result is `null`, and the login is answered like one
 * with an unknown name.
 */
export function parseLoginName(raw: string): LoginName | null {
  if (raw.includes('@')) {
    const given = addressAsGiven(raw);
    // 1.0.0 took every text with one @ inside for an address: such an account still logs in.
    const isAddress = /^[^@]+@[^@]+$/.test(given) && textProblem(raw, given) === null;
    return isAddress ? { email: canonicalAddress(given) } : null;
  }
  const username = parseUsername(raw);
  return username.ok ? { username: username.value } : null;
}

/** The canonical form of a login's name, even of one that no account can have. */
export function attemptedName(raw: string): string {
  return raw.includes('@') ? canonicalAddress(raw) : canonicalUsername(raw);
}

/** Normalised again at the end, since lower-casing can undo it (U+0130 becomes two code points). */
function canonicalUsername(raw: string): string {
  return raw.normalize('NFKC').trim().toLowerCase().normalize('NFKC');
}

/** Text that is compared with what is stored: any text within bounds is a try. */
export function parseTry(value: string, maxLength: number): Parsed {
  if (!value.isWellFormed()) return bad('must be well-formed Unicode');
  if (value === '') return bad('must not be empty');
  if (lengthOf(value) > maxLength) return bad(`must have at most ${maxLength} characters`);
  return { ok: true, value };
}

/** Length in code points. */
export function lengthOf(text: string): number {
  return Array.from(text).length;
}

function bad(message: string): Parsed {
  return { ok: false, message };
}

/** Collects the errors of several fields, so that a client gets all of them at once. */
export function collectFields<Name extends string>(
  fields: Record<Name, Parsed>,
): { values: Record<Name, string>; errors: FieldError[] } {
  const errors: FieldError[] = [];
  const values = {} as Record<Name, string>;
  for (const [name, parsed] of Object.entries(fields) as [Name, Parsed][]) {
    if (parsed.ok) values[name] = parsed.value;
    else errors.push({ path: `/${name}`, message: parsed.message });
  }
  return { values, errors };
}
