import { createHmac, hkdfSync } from 'node:crypto';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import { followSecrets } from './follow-secrets.ts';

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
