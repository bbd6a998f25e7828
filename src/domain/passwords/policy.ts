import { lengthOf, type Parsed } from '../users/identifiers.ts';

/** Long enough for any passphrase, short enough that nobody sends a megabyte to be hashed. */
export const PASSWORD_MAX_LENGTH = 1024;

/** The form that is hashed: NFC, so that one password typed on two keyboards is one password. */
export function normalisePassword(raw: string): string {
  return raw.normalize('NFC');
}

/** A new password's form and length, in code points after normalisation. No composition rules (NIST SP 800-63B). */
export function parsePassword(raw: string, minLength: number): Parsed {
  if (!raw.isWellFormed()) return { ok: false, message: 'must be well-formed Unicode' };
  const value = normalisePassword(raw);
  const length = lengthOf(value);
  if (length < minLength) return { ok: false, message: `must have at least ${minLength} characters` };
  if (length > PASSWORD_MAX_LENGTH)
    return { ok: false, message: `must have at most ${PASSWORD_MAX_LENGTH} characters` };
  if (value.trim() === '') return { ok: false, message: 'must not be blank' };
  return { ok: true, value };
}

/** Whether a list of the commonest passwords holds it; asked with the lower-cased password. */
export type IsCommonPassword = (password: string) => boolean;

/**
 * Why this password must not be taken: the first guesses of anybody who tries.
 * @returns null when it may.
 */
export function refuseGuessable(
  password: string,
  owner: { username: string; name: string; email: string },
  isCommon: IsCommonPassword,
): string | null {
  const guess = fold(password);
  if (isCommon(guess)) return 'is one of the commonest passwords';
  const localPart = owner.email.slice(0, owner.email.indexOf('@'));
  const own = [owner.username, owner.name, owner.email, localPart].map(fold);
  return own.includes(guess) ? 'must not be your own name or address' : null;
}

function fold(text: string): string {
  return text.normalize('NFKC').trim().toLowerCase();
}
