/**
 * The name of an audience: 1 to 64 letters, digits, `.`, `_`, `:` and `-`, the first a letter or digit. It stands in
 * paths, queries and proxies' configurations as it is.
 */
const AUDIENCE = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$/;

export function isAudience(text: string): boolean {
  return AUDIENCE.test(text);
}

/**
 * Ends the `aud` of a limited token, so that software which compares `aud` with the audience itself never takes it for
 * the user's own token, whatever it does with `typ`. No registered name holds a `#`, and no AUDIENCE ends like this.
 */
export const LIMITED = '#limited';
