import { createHmac } from 'node:crypto';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import { deriveKey, followSecrets } from './refresh-secrets.ts';

/** The four bytes of an IPv4 address, or the eight groups of an IPv6 address. A mapped IPv4 address counts as IPv4. */
type AddressParts = readonly number[];

/**
 * A caller's fingerprint: a keyed hash of address and User-Agent. Keyed, so that neither Redis nor a backup of the
 * database reveals an address. Of an IPv6 address only the /64 counts: privacy extensions change the rest.
 * @param secret any secret that all replicas share.
 */
export function makeCallerHash(secret: Buffer) {
  const key = deriveKey(secret, 'client hash');
  return function callerHash(address: AddressParts, userAgent: string): string {
    return createHmac('sha256', key)
      .update(`${networkOf(address)}\0${userAgent}`)
      .digest('base64url')
      .slice(0, 22);
  };
}

/** The caller hash under the newest refresh secret, and under each secret in use, the newest first. */
export function makeCallerHashes(keyRing: KeyRing) {
  const hashes = followSecrets(keyRing, makeCallerHash);
  return {
    newest: (address: AddressParts, userAgent: string): string => hashes.newest()(address, userAgent),
    each: (address: AddressParts, userAgent: string): string[] =>
      hashes.all().map((hash) => hash(address, userAgent)),
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
  const key = deriveKey(secret, 'attempt hash');
  return function attemptHash(text: string): string {
    return createHmac('sha256', key).update(text).digest('base64url').slice(0, 22);
  };
}

export type AttemptHash = ReturnType<typeof makeAttemptHash>;

/** The attempt hash under the newest refresh secret. A new secret restarts every counter. */
export function followAttemptHash(keyRing: KeyRing): AttemptHash {
  const hashes = followSecrets(keyRing, makeAttemptHash);
  return (text) => hashes.newest()(text);
}
