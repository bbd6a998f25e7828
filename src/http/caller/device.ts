import Bowser from 'bowser';
import { truncate } from '../../domain/truncate.ts';
import { isInvisibleDevice, parseDevice, UNKNOWN_DEVICE } from '../../domain/users/device-name.ts';

/** The name of a session or token: the given one, unless it is missing or invisible. */
export function deviceNameOf(given: string | undefined, userAgent: string | undefined): string {
  return given === undefined || isInvisibleDevice(given) ? deviceOf(userAgent) : given;
}

/** The name of a device that did not name itself: `Firefox on Linux`, `curl/8.5.0`, or `unknown`. */
export function deviceOf(userAgent: string | undefined): string {
  if (!userAgent) return UNKNOWN_DEVICE;
  const { browser, os } = Bowser.parse(userAgent);
  const [product = ''] = userAgent.split(' ', 1);
  const isBrowser = userAgent.startsWith('Mozilla/') && Boolean(browser.name);
  const name = isBrowser ? [browser.name, os.name].filter(Boolean).join(' on ') : truncate(product, 64);
  const label = parseDevice(name);
  return label.ok ? label.value : UNKNOWN_DEVICE;
}
