import { createHmac, hkdfSync } from 'node:crypto';
import type { KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';

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

/**
 * Hashes the names of attempt counters. Keyed, so that Redis does not reveal which names were tried from which address.
 * @param secret any secret that all replicas share.
 */
export function makeAttemptHash(secret: Buffer) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'latchkey attempt hash', 32));
  return function attemptHash(text: string): string {
    return createHmac('sha256', key).update(text).digest('base64url').slice(0, 22);
  };
}

export type AttemptHash = ReturnType<typeof makeAttemptHash>;

/** The attempt hash under the newest refresh secret. A new secret restarts every counter. */
export function followAttemptHash(keyRing: KeyRing): AttemptHash {
  let [newest] = followSecrets(keyRing, makeAttemptHash, (hashes) => {
    [newest] = hashes;
  });
  return (text) => newest(text);
}

/** The values derived from the newest refresh secret, and from each secret in use, the newest first. */
type OfSecrets<Derived> = [newest: Derived, all: Derived[]];

/**
 * Derives a value from each refresh secret. All replicas share the secrets, so they derive the same values.
 * @param onChange receives the new values when the secrets change.
 * @returns the current values.
 */
export function followSecrets<Derived>(
  keyRing: KeyRing,
  derive: (secret: Buffer) => Derived,
  onChange: (derived: OfSecrets<Derived>) => void,
): OfSecrets<Derived> {
  const deriveAll = ({ refresh }: KeySet): OfSecrets<Derived> => {
    const all = refresh.map(({ secret }) => derive(secret));
    const [newest] = all;
    if (newest === undefined) throw new Error('the key ring has no refresh secret');
    return [newest, all];
  };
  keyRing.onChange((keys) => {
    onChange(deriveAll(keys));
    return Promise.resolve();
  });
  return deriveAll(keyRing.current());
}
