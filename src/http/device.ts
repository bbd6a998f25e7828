import Bowser from 'bowser';
import { parseLabel } from '../domain/users/identifiers.ts';

/** The name of a device that did not name itself: `Firefox on Linux`, `curl/8.5.0`, or `unknown`. */
export function deviceOf(userAgent: string | undefined): string {
  if (!userAgent) return 'unknown';
  const { browser, os } = Bowser.parse(userAgent);
  const [product = ''] = userAgent.split(' ', 1);
  const known = userAgent.startsWith('Mozilla/') && browser.name;
  const name = known ? [browser.name, os.name].filter(Boolean).join(' on ') : product.slice(0, 64);
  const label = parseLabel(name);
  return label.ok ? label.value : 'unknown';
}
