/** The headers in which a proxy tells an application who asks. */
export const NAMES = [
  'X-Auth-User',
  'X-Auth-Username',
  'X-Auth-Session',
  'X-Auth-Token-Type',
  'X-Auth-Roles',
  'X-Auth-Client',
] as const;

/** Characters that a header's name may contain besides letters, digits and dashes (RFC 9110, section 5.6.2). */
const ODD = Array.from("!#$%&'*+.^_`|~");

/** Names that some applications read as those, by the odd character in them. */
export const ALIASES = ODD.map((odd) => ({
  odd,
  names: [
    ...NAMES.map((name) => name.replaceAll('-', odd)),
    ...NAMES.map((name) => name.replace(/-(?=[^-]+$)/, () => odd)),
  ],
}));

/** Takes the lines that a proxy's file has in comments for one audience, each in place of the one below it. */
export function withAudience(text: string): string {
  const changed = text.replace(/^[ \t]*# Instead, .*\n([ \t]*)# (.*\n).*\n/gm, '$1$2');
  if (changed === text) throw new Error('the file has no line for an audience');
  return changed;
}
