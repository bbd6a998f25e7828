import { createHmac, hkdfSync } from 'node:crypto';
import { isIPv6 } from 'node:net';

/**
 * Who asks for a pair: a keyed hash of address and User-Agent. Keyed, so that neither Redis nor a backup of the database
 * tells anybody's address. Of an IPv6 address only the /64 counts: privacy extensions change the rest.
 * @param secret any secret that all replicas share.
 */
export function makeClientHash(secret: Buffer) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'latchkey client hash', 32));
  return function clientHash(address: string, userAgent: string): string {
    return createHmac('sha256', key)
      .update(`${networkOf(address)}\0${userAgent}`)
      .digest('base64url')
      .slice(0, 22);
  };
}

export type ClientHash = ReturnType<typeof makeClientHash>;

/** An IPv4 address as it is; of an IPv6 address its first four groups; a mapped IPv4 address as IPv4. */
function networkOf(address: string): string {
  if (!isIPv6(address)) return address;
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
