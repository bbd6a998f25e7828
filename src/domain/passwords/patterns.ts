import { lengthOf } from '../identifiers.ts';

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
