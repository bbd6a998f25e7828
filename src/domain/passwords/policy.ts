import { AuthError, type FieldProblem } from '../errors.ts';
import { BLANK, ILL_FORMED, lengthOf, refuse, tooLong, type Parsed } from '../identifiers.ts';

/** Long enough for any passphrase, short enough that no client makes us hash a megabyte. */
export const PASSWORD_MAX_LENGTH = 1024;

/** The form that is hashed: NFC, so that one password typed on two keyboards is one password. */
export function normalisePassword(raw: string): string {
  return raw.normalize('NFC');
}

/** A new password's form and length, in code points after normalisation. No composition rules (NIST SP 800-63B). */
export function parsePassword(raw: string, minLength: number): Parsed {
  if (!raw.isWellFormed()) return refuse(ILL_FORMED);
  const value = normalisePassword(raw);
  const length = lengthOf(value);
  if (length < minLength) {
    const message = `must have at least ${minLength} characters`;
    return refuse({ code: 'too_short', params: { min: minLength }, message });
  }
  if (length > PASSWORD_MAX_LENGTH) return refuse(tooLong(PASSWORD_MAX_LENGTH));
  if (value.trim() === '') return refuse(BLANK);
  return { ok: true, value };
}

/** Whether a password is on the list of breached ones, folded and with its substitutions undone. */
export type IsCommonPassword = (form: string) => boolean;

/**
 * Refuses passwords that an attacker guesses first.
 * @returns why; null if the password is acceptable.
 */
export function refuseGuessable(
  password: string,
  owner: { username: string; name: string; email: string },
  isCommon: IsCommonPassword,
): FieldProblem | null {
  const guess = fold(password);
  const stems = stemsOf(guess);
  if (stems.some(isPattern))
    return { code: 'pattern', message: 'is a simple pattern, such as a repetition or a row of keys' };
  // A common password twice is no better than once.
  const words = stems.flatMap((stem) => [stem, repeatedUnit(stem) ?? stem]);
  if (words.some((word) => isCommon(undoSubstitutions(word))))
    return { code: 'common', message: 'is one of the commonest passwords, or too close to one' };
  const localPart = owner.email.slice(0, owner.email.indexOf('@'));
  const names = [owner.username, owner.name, owner.email, localPart].map(fold);
  const own = names.flatMap((name) => [name, name.replaceAll(' ', '')]);
  return own.some((name) => stems.includes(name))
    ? { code: 'personal', message: 'must not be your own name or address' }
    : null;
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
  const problem = refuseGuessable(password, owner, isCommon);
  if (problem) throw new AuthError('password_refused', { errors: [{ path, ...problem }] });
}

/** How many characters at the end of a password may be decoration: a year and an exclamation mark. */
const DECORATION = 5;

/** A shorter word is part of too many good passwords. */
const SHORTEST_STEM = 4;

/** What stands for a letter, and that letter. `1` stands for `i` and for `l`, so these two count as one. */
const SUBSTITUTES: Record<string, string> = {
  '@': 'a',
  '4': 'a',
  '3': 'e',
  '!': 'i',
  '1': 'i',
  '|': 'i',
  l: 'i',
  '0': 'o',
  $: 's',
  '5': 's',
  '7': 't',
};

/** Upper case, wide letters and spaces at the ends make no guess harder. */
export function fold(text: string): string {
  return text.normalize('NFKC').trim().toLowerCase();
}

/** Undoes substitutions in a folded text. The list of breached passwords is in this form too. */
export function undoSubstitutions(folded: string): string {
  return folded.replace(/[@43!1|l0$57]/g, (character) => SUBSTITUTES[character] ?? character);
}

/**
 * What an attacker starts from: the folded password, then without one to five digits or signs at its end.
 * Only whole stems are compared, so a passphrase that begins with a common word is good.
 */
export function stemsOf(folded: string): string[] {
  const characters = Array.from(folded);
  const stems = [folded];
  for (let end = characters.length - 1; end >= SHORTEST_STEM; end--) {
    if (end < characters.length - DECORATION || isLetter(characters[end])) break;
    if (!cutsNumber(characters, end)) stems.push(characters.slice(0, end).join(''));
  }
  return stems;
}

/** The first half of a number is no word: of `2718281828` only the whole is a guess. */
function cutsNumber(characters: string[], end: number): boolean {
  return isDigit(characters[end]) && characters.slice(0, end).every(isDigit);
}

// Stryker disable next-line StringLiteral: no index is beyond the end, which the compiler does not know
function isLetter(character = ''): boolean {
  return /\p{L}/u.test(character);
}

// Stryker disable next-line StringLiteral: as above
function isDigit(character = ''): boolean {
  return /\p{Nd}/u.test(character);
}

/** `abcabcabc` has a unit of three. A longer unit is a guess only if it is a common password. */
const LONGEST_UNIT = 4;

/** Common passwords are shorter. The bound keeps the check of 1,024 characters short. */
const LONGEST_COMPARED = 64;

/** Fewer neighbouring keys than this occur in every language: `we`, `er`. */
const SHORTEST_RUN = 3;

/** Rows of keys from the top, so that characters at the same place are one slanting column: `1qaz`. */
const KEYBOARDS = [
  ['1234567890-=', 'qwertyuiop[]', "asdfghjkl;'", 'zxcvbnm,./'],
  ['!@#$%^&*()_+', 'qwertyuiop{}', 'asdfghjkl:"', 'zxcvbnm<>?'],
  ['1234567890', 'azertyuiop', 'qsdfghjklmù', 'wxcvbn,;:!'],
  ['1234567890ß', 'qwertzuiopü', 'asdfghjklöä', 'yxcvbnm,.-'],
];

const SEQUENCES = ['01234567890', 'abcdefghijklmnopqrstuvwxyz'];

/** Keys and characters in order, in both directions, a line each: one text is searched faster than many. */
const LINES = [...SEQUENCES, ...KEYBOARDS.flatMap((rows) => [...rows, ...columnsOf(rows)])]
  .flatMap((line) => [line, Array.from(line).reverse().join('')])
  .join('\n');

/** Whether a folded text is a short unit repeated, or runs of neighbours: `abcabc`, `12345678`, `qwertyasdf`. */
export function isPattern(folded: string): boolean {
  const unit = repeatedUnit(folded);
  return (unit !== null && lengthOf(unit) <= LONGEST_UNIT) || isWalk(folded);
}

/**
 * The shortest text, of at most 64 characters, that gives the whole if it is repeated; its last copy may be cut off.
 */
export function repeatedUnit(text: string): string | null {
  for (let size = 1; size * 2 <= text.length && size <= LONGEST_COMPARED; size++)
    if (text.slice(size) === text.slice(0, -size)) return text.slice(0, size);
  return null;
}

function isWalk(text: string): boolean {
  for (let at = 0; at < text.length;) {
    const run = runAt(text, at);
    if (run < SHORTEST_RUN) return false;
    at += run;
  }
  return true;
}

/** How many characters from `at` are neighbours, in one direction. */
function runAt(text: string, at: number): number {
  let end = at;
  while (end < text.length && LINES.includes(text.slice(at, end + 1))) end++;
  return end - at;
}

function columnsOf(rows: string[]): string[] {
  // Stryker disable next-line StringLiteral: every keyboard has a first row
  return Array.from(rows[0] ?? '').map((_, index) => rows.map((row) => row[index]).join(''));
}
