/**
 * Characters without a visible shape: controls, formats, surrogates, private and unassigned ones (\p{C}), those that
 * Unicode says to ignore or that turn the direction, line breaks, and letters and signs that are drawn blank (a Braille
 * cell without dots, a notehead without ink, Egyptian and Khitan fillers, a place for an object).
 */
const SHAPELESS =
  '\\u{16fe4}\\p{C}\\p{Default_Ignorable_Code_Point}\\p{Bidi_Control}\\p{Zl}\\p{Zp}' +
  '\\u2800\\u{1d159}\\u{13441}\\u{13442}\\ufffc';

const INVISIBLE = new RegExp(`[${SHAPELESS}]`, 'u');

/** Persian, Indic scripts and emoji need these: one selector and one joiner after a visible character. */
const JOINED = '[\\ufe0e\\ufe0f][\\u200c\\u200d]?|[\\u200c\\u200d]';
const JOINED_OR_INVISIBLE = new RegExp(`(?<=[^\\s${SHAPELESS}])(${JOINED})|[${SHAPELESS}]`, 'gu');

export function holdsInvisible(text: string): boolean {
  return INVISIBLE.test(text);
}

/** Removes invisible characters, except joiners and variation selectors after a visible character. */
export function withoutInvisible(text: string): string {
  return text.replace(JOINED_OR_INVISIBLE, (_, joined?: string) => joined ?? '');
}
