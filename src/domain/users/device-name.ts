import { parseLabel, type Parsed } from '../identifiers.ts';
import { withoutInvisible } from './visible.ts';

/** The name of an unknown device. */
export const UNKNOWN_DEVICE = 'unknown';

/**
 * A device's name, trimmed, of 1 to 128 characters. Invisible characters are removed rather than refused, since
 * software chooses most of these names. If nothing is left, the name is `unknown`.
 */
export function parseDevice(raw: string): Parsed {
  if (!raw.isWellFormed() || raw.trim() === '') return parseLabel(raw);
  const visible = withoutInvisible(raw).trim();
  return parseLabel(visible === '' ? UNKNOWN_DEVICE : visible);
}

/** Whether a name was given that consists of invisible characters only. */
export function isInvisibleDevice(raw: string): boolean {
  return raw.isWellFormed() && raw.trim() !== '' && withoutInvisible(raw).trim() === '';
}
