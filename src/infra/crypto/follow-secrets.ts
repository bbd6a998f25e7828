import type { KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';

/** The values derived from the newest refresh secret, and from each secret in use, the newest first. */
export type OfSecrets<Derived> = [newest: Derived, all: Derived[]];

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
