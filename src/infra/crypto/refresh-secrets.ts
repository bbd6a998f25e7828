import { hkdfSync } from 'node:crypto';
import type { KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';

/**
 * A key of 32 bytes for this purpose alone: what is made with it is of no use for any other.
 * @param secret any secret that all replicas share.
 */
export function deriveKey(secret: Buffer, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', `latchkey ${purpose}`, 32));
}

/** What is derived from the refresh secrets in use. Both change when the secrets change. */
interface OfSecrets<Derived> {
  newest: () => Derived;
  /** The newest first. */
  all: () => readonly Derived[];
}

/** Derives a value from each refresh secret. All replicas share the secrets, so they derive the same values. */
export function followSecrets<Derived>(
  keyRing: KeyRing,
  derive: (secret: Buffer) => Derived,
): OfSecrets<Derived> {
  const deriveAll = ({ refresh }: KeySet) => {
    const [newest, ...earlier] = refresh.map(({ secret }) => derive(secret));
    if (newest === undefined) throw new Error('the key ring has no refresh secret');
    return { newest, all: [newest, ...earlier] };
  };
  let derived = deriveAll(keyRing.current());
  keyRing.onChange((keys) => {
    derived = deriveAll(keys);
    return Promise.resolve();
  });
  return { newest: () => derived.newest, all: () => derived.all };
}
