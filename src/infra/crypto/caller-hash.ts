import { createHmac, hkdfSync } from 'node:crypto';
import { isIPv6 } from 'node:net';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import { followSecrets } from './follow-secrets.ts';

/**
 * A caller's fingerprint: a keyed hash of address and User-Agent. Keyed, so that neither Redis nor a backup of the
 * database reveals an address. Of an IPv6 address only the /64 counts: privacy extensions change the rest.
 * @param secret any secret that all replicas share.
 */
export function makeCallerHash(secret: Buffer) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'latchkey client hash', 32));
  return function callerHash(address: string, userAgent: string): string {
    return createHmac('sha256', key)
      .update(`${networkOf(address)}\0${userAgent}`)
      .digest('base64url')
      .slice(0, 22);
  };
}

export type CallerHash = ReturnType<typeof makeCallerHash>;

/** The caller hash under the newest refresh secret, and under each secret in use, the newest first. */
export function makeCallerHashes(keyRing: KeyRing) {
  let [newest, all] = followSecrets(keyRing, makeCallerHash, (hashes) => {
    [newest, all] = hashes;
  });
  return {
    newest: (address: string, userAgent: string): string => newest(address, userAgent),
    each: (address: string, userAgent: string): string[] => all.map((hash) => hash(address, userAgent)),
  };
}

/** The whole IPv4 address, or the first four groups of an IPv6 address. Treats a mapped IPv4 address as IPv4. */
function networkOf(address: string): string {
  // isIPv6() alone is a long pattern.
  if (!address.includes(':') || !isIPv6(address)) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped) return mapped;
  const [head = '', tail] = address.replace(/%.*/, '').toLowerCase().split('::');
  const groups = head === '' ? [] : head.split(':');
  const rest = tail ? tail.split(':') : [];
  const zeros = Array.from({ length: tail === undefined ? 0 : 8 - groups.length - rest.length }, () => '0');
  return [...groups, ...zeros, ...rest]
    .slice(0, 4)
    .map((group) => parseInt(group, 16).toString(16))
    .join(':');
}
