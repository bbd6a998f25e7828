import { AuthError } from '../errors.ts';
import { lengthOf, type Parsed } from '../identifiers.ts';
import { fold, stemsOf, undoSubstitutions } from './guess-forms.ts';
import { isPattern, repeatedUnit } from './patterns.ts';

/** Long enough for any passphrase, short enough that no client makes us hash a megabyte. */
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

/** Whether a password is on the list of breached ones, folded and with its substitutions undone. */
export type IsCommonPassword = (form: string) => boolean;

/**
 * Refuses passwords that an attacker guesses first.
 * @returns the reason; null if the password is acceptable.
 */
export function refuseGuessable(
  password: string,
  owner: { username: string; name: string; email: string },
  isCommon: IsCommonPassword,
): string | null {
  const guess = fold(password);
  const stems = stemsOf(guess);
  if (stems.some(isPattern)) return 'is a simple pattern, such as a repetition or a row of keys';
  // A common password twice is no better than once.
  const words = stems.flatMap((stem) => [stem, repeatedUnit(stem) ?? stem]);
  if (words.some((word) => isCommon(undoSubstitutions(word))))
    return 'is one of the commonest passwords, or too close to one';
  const localPart = owner.email.slice(0, owner.email.indexOf('@'));
  const names = [owner.username, owner.name, owner.email, localPart].map(fold);
  const own = names.flatMap((name) => [name, name.replaceAll(' ', '')]);
  return own.some((name) => stems.includes(name)) ? 'must not be your own name or address' : null;
}

/**
 * @param path of the field that holds the password.
 * @throws AuthError `password_refused` if an attacker guesses it first
 */
export function requireUnguessable(
  password: string,
  owner: { username: string; name: string; email: string },
  isCommon: IsCommonPassword,
  path = '/password',
): void {
  const message = refuseGuessable(password, owner, isCommon);
  if (message) throw new AuthError('password_refused', { errors: [{ path, message }] });
}
