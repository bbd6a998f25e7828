/** The headers in which a proxy tells an application who asks. */
export const NAMES = [
  'X-Auth-User',
  'X-Auth-Username',
  'X-Auth-Session',
  'X-Auth-Token-Type',
  'X-Auth-Roles',
  'X-Auth-Client',
] as const;

/**
 * Headers in which a client names another method, path or address than those that a proxy has checked. No proxy's file
 * passes one on to an application.
 */
export const OVERRIDES = [
  'X-HTTP-Method',
  'X-HTTP-Method-Override',
  'X-Method-Override',
  'X-Original-Method',
  'X-Forwarded-Method',
  'X-Original-URL',
  'X-Original-URI',
  'X-Rewrite-URL',
  'X-Forwarded-Uri',
  'X-Forwarded-Prefix',
  'X-Forwarded-Path',
  'Forwarded',
] as const;

/** Characters that a header's name may contain besides letters, digits and dashes (RFC 9110, section 5.6.2). */
const ODD = Array.from("!#$%&'*+.^_`|~");

/** Names that some applications read as the given ones, by the odd character in them. */
export const aliasesOf = (names: readonly string[]) =>
  ODD.map((odd) => ({
    odd,
    names: [
      ...names.map((name) => name.replaceAll('-', () => odd)),
      ...names.map((name) => name.replace(/-(?=[^-]+$)/, () => odd)),
    ],
  }));

/** Takes the lines that a proxy's file has in comments for one audience, each in place of the one below it. */
export function withAudience(text: string): string {
  const changed = text.replace(/^[ \t]*# Instead, .*\n([ \t]*)# (.*\n).*\n/gm, '$1$2');
  if (changed === text) throw new Error('the file has no line for an audience');
  return changed;
}
