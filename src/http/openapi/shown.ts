import { isObject } from './json.ts';

/**
 * A keyword of our schemas: what the reference shows instead of, or besides, their other keywords. No validator and no
 * serializer reads it. `undefined` hides a keyword.
 */
export const SHOWN = 'shown';

/** A part of a schema as the reference shows it. */
export function asShown(part: unknown): unknown {
  if (Array.isArray(part)) return part.map(asShown);
  if (!isObject(part)) return part;
  const { [SHOWN]: shown = {}, ...rest } = part;
  const merged = { ...rest, ...(shown as object) };
  return Object.fromEntries(
    Object.entries(merged)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [key, asShown(value)]),
  );
}
