import { addressAsGiven, canonicalAddress, isMailbox } from './address.ts';
import type { FieldError, FieldProblem } from './errors.ts';

/**
 * The canonical forms of user input. Lengths are in code points after normalisation. Each function returns the
 * canonical value or a problem that does not contain the value.
 */
export type Parsed<Value = string> = { ok: true; value: Value } | Refused;

export type Refused = { ok: false } & FieldProblem;

const CONTROL = /\p{Cc}/u;
const WHITESPACE = /[\s\p{White_Space}]/u;

/** NFKC, trimmed, lower-cased; 1 to 64 characters, no whitespace, control characters or `@`. */
export function parseUsername(raw: string): Parsed {
  const value = canonicalUsername(raw);
  if (!raw.isWellFormed()) return refuse(ILL_FORMED);
  if (value === '') return refuse(BLANK);
  if (lengthOf(value) > 64) return refuse(tooLong(64));
  if (WHITESPACE.test(value) || CONTROL.test(value) || value.includes('@')) {
    return refuse(badCharacter('must not hold whitespace, control characters or @'));
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
  if (problem !== null) return refuse(problem);
  return isMailbox(value)
    ? { ok: true, value }
    : refuse({ code: 'format', message: 'must be an e-mail address' });
}

function textProblem(raw: string, value: string): FieldProblem | null {
  if (!raw.isWellFormed()) return ILL_FORMED;
  if (lengthOf(value) > 254) return tooLong(254);
  return WHITESPACE.test(value) || CONTROL.test(value)
    ? badCharacter('must not hold whitespace or control characters')
    : null;
}

/** A person's or a device's name: trimmed, 1 to 128 characters, no control characters. */
export function parseLabel(raw: string): Parsed {
  const value = raw.trim();
  if (!raw.isWellFormed()) return refuse(ILL_FORMED);
  if (value === '') return refuse(BLANK);
  if (lengthOf(value) > 128) return refuse(tooLong(128));
  if (CONTROL.test(value)) return refuse(badCharacter('must not hold control characters'));
  return { ok: true, value };
}

/** The id that another system gave a user: 1 to 128 visible ASCII characters, compared byte by byte. */
export function parseExternalId(raw: string): Parsed {
  if (raw === '') return refuse(BLANK);
  if (lengthOf(raw) > 128) return refuse(tooLong(128));
  if (!/^[!-~]+$/.test(raw)) return refuse(badCharacter('must hold visible ASCII characters only'));
  return { ok: true, value: raw };
}

/** A login's name: a username, or an e-mail address if it contains an `@`. */
export type LoginName = { username: string } | { email: string };

/** Names an account: by username or e-mail address in its canonical form, or by an id. */
export type AccountKey = LoginName | { id: number } | { externalId: string };

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
  if (!value.isWellFormed()) return refuse(ILL_FORMED);
  if (value === '') return refuse({ code: 'blank', message: 'must not be empty' });
  if (lengthOf(value) > maxLength) return refuse(tooLong(maxLength));
  return { ok: true, value };
}

/** Length in code points. */
export function lengthOf(text: string): number {
  return Array.from(text).length;
}

export const BLANK: FieldProblem = { code: 'blank', message: 'must not be blank' };

/** A lone surrogate. */
export const ILL_FORMED = badCharacter('must be well-formed Unicode');

export function badCharacter(message: string): FieldProblem {
  return { code: 'not_allowed_character', message };
}

/** @param max code points. */
export function tooLong(max: number): FieldProblem {
  return { code: 'too_long', params: { max }, message: `must have at most ${max} characters` };
}

export function refuse(problem: FieldProblem): Refused {
  return { ok: false, ...problem };
}

export function fieldError(path: string, { ok: _, ...problem }: Refused): FieldError {
  return { path, ...problem };
}

/** Collects the errors of several fields, so that a client gets all of them at once. */
export function collectFields<Name extends string>(
  fields: Record<Name, Parsed>,
): { values: Record<Name, string>; errors: FieldError[] } {
  const errors: FieldError[] = [];
  const values = {} as Record<Name, string>;
  for (const [name, parsed] of Object.entries(fields) as [Name, Parsed][]) {
    if (parsed.ok) values[name] = parsed.value;
    else errors.push(fieldError(`/${name}`, parsed));
  }
  return { values, errors };
}
