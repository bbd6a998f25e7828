/** What a registered service may be allowed to do. */
export const RIGHTS = [
  'introspect',
  'revoke',
  'revocations',
  'users.read',
  'users.write',
  'users.reset',
  'exchange',
] as const;
export type Right = (typeof RIGHTS)[number];

/** The rights of a service that was registered without a list. */
export const DEFAULT_RIGHTS: readonly Right[] = ['introspect', 'revoke', 'revocations'];

/**
 * Reads a comma-separated list.
 * @returns the rights in the order of `RIGHTS`, or a message that says what is wrong.
 */
export function parseRights(list: string): Right[] | string {
  const words = list.split(',').map((word) => word.trim());
  const unknown = words.find((word) => !RIGHTS.some((right) => right === word));
  if (unknown !== undefined) {
    const what = unknown === '' ? 'a right is missing' : `there is no right ${JSON.stringify(unknown)}`;
    return `${what}; the rights are ${RIGHTS.join(', ')}`;
  }
  return RIGHTS.filter((right) => words.includes(right));
}
