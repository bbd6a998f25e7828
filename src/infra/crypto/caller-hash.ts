import { createHmac, hkdfSync } from 'node:crypto';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import { followSecrets } from './follow-secrets.ts';

/** The four bytes of an IPv4 address, or the eight groups of an IPv6 address. A mapped IPv4 address counts as IPv4. */
type AddressParts = readonly number[];

/**
 * A caller's fingerprint: a keyed hash of address and User-Agent. Keyed, so that neither Redis nor a backup of the
 * database reveals an address. Of an IPv6 address only the /64 counts: privacy extensions change the rest.
 * @param secret any secret that all replicas share.
 */
export function makeCallerHash(secret: Buffer) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'latchkey client hash', 32));
  return function callerHash(address: AddressParts, userAgent: string): string {
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
    newest: (address: AddressParts, userAgent: string): string => newest(address, userAgent),
    each: (address: AddressParts, userAgent: string): string[] => all.map((hash) => hash(address, userAgent)),
  };
}

/** The whole IPv4 address, or the first four groups of an IPv6 address. */
function networkOf(parts: AddressParts): string {
  if (parts.length === 4) return parts.join('.');
  return parts
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':');
}
