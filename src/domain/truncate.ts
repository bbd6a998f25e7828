/**
 * The first characters of a text of any length. Counts code points, because a cut through a surrogate pair leaves a
 * text that is not well-formed.
 */
export function truncate(text: string, characters: number): string {
  // No code point takes more than two units, so that a long text is not split into an array.
  return Array.from(text.slice(0, 2 * characters))
    .slice(0, characters)
    .join('');
}
