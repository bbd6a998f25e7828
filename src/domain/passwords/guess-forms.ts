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
