import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import type { IssuedChallenge, LoginChallenges } from '../../domain/passkeys/ports.ts';
import { deriveKey, followSecrets } from './refresh-secrets.ts';

const TIME_BYTES = 8;
/** WebAuthn Level 3, section 13.4.3, demands at least 16. */
const RANDOM_BYTES = 16;
const NONCE_BYTES = TIME_BYTES + RANDOM_BYTES;
const MAC_BYTES = 32;

/**
 * The key is for this purpose alone, so no token of ours is taken for a challenge, and the other way round.
 */
function makeMac(secret: Buffer) {
  const key = deriveKey(secret, 'passkey challenge');
  return (nonce: Buffer) => createHmac('sha256', key).update(nonce).digest();
}

/** Challenges under the newest refresh secret; one under an earlier secret is good too. */
export function followLoginChallenges(keyRing: KeyRing): LoginChallenges {
  const macs = followSecrets(keyRing, makeMac);
  return {
    issue(at) {
      // The time comes first, so that later ones are greater.
      const nonce = Buffer.alloc(NONCE_BYTES);
      nonce.writeBigUInt64BE(BigInt(at));
      randomBytes(RANDOM_BYTES).copy(nonce, TIME_BYTES);
      return Buffer.concat([nonce, macs.newest()(nonce)]).toString('base64url');
    },

    read(challenge): IssuedChallenge | null {
      const bytes = Buffer.from(challenge, 'base64url');
      // Node's decoder skips invalid characters: a challenge has one spelling only.
      if (bytes.length !== NONCE_BYTES + MAC_BYTES || bytes.toString('base64url') !== challenge) return null;
      const nonce = bytes.subarray(0, NONCE_BYTES);
      const given = bytes.subarray(NONCE_BYTES);
      if (!macs.all().some((mac) => timingSafeEqual(mac(nonce), given))) return null;
      return { issuedAt: Number(nonce.readBigUInt64BE()), nonce };
    },
  };
}
