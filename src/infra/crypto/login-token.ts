import { createHmac, timingSafeEqual } from 'node:crypto';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import type { LoginTokens, PasswordProof } from '../../domain/factors/login-token.ts';
import { deriveKey, followSecrets } from './refresh-secrets.ts';

/** By which secret scanners find a leaked one, and which no other token of ours has. */
const PREFIX = 'lkl_';
/** User id, version of the password, when the account was enabled, and time of issue, 8 bytes each. */
const CLAIMS_BYTES = 32;
const MAC_BYTES = 32;

/**
 * Signs what stands between the two steps of a login. The key is for this purpose alone, so no other token of ours is
 * taken for one, and the other way round.
 * @param secret any secret that all replicas share.
 */
function makeMac(secret: Buffer) {
  const key = deriveKey(secret, 'login token');
  return (claims: Buffer) => createHmac('sha256', key).update(claims).digest();
}

/** Login tokens under the newest refresh secret; one under an earlier secret is good too. */
export function followLoginTokens(keyRing: KeyRing): LoginTokens {
  const macs = followSecrets(keyRing, makeMac);
  return {
    issue({ userId, passwordVersion, enabledAt, issuedAt }) {
      const claims = Buffer.alloc(CLAIMS_BYTES);
      for (const [i, value] of [userId, passwordVersion, enabledAt, issuedAt].entries())
        claims.writeBigUInt64BE(BigInt(value), i * 8);
      return PREFIX + Buffer.concat([claims, macs.newest()(claims)]).toString('base64url');
    },

    read(token): PasswordProof | null {
      if (!token.startsWith(PREFIX)) return null;
      const encoded = token.slice(PREFIX.length);
      const bytes = Buffer.from(encoded, 'base64url');
      // Node's decoder skips invalid characters: a token has one spelling only.
      if (bytes.length !== CLAIMS_BYTES + MAC_BYTES || bytes.toString('base64url') !== encoded) return null;
      const claims = bytes.subarray(0, CLAIMS_BYTES);
      const given = bytes.subarray(CLAIMS_BYTES);
      if (!macs.all().some((mac) => timingSafeEqual(mac(claims), given))) return null;
      const valueAt = (i: number) => Number(claims.readBigUInt64BE(i * 8));
      return {
        userId: valueAt(0),
        passwordVersion: valueAt(1),
        enabledAt: valueAt(2),
        issuedAt: valueAt(3),
      };
    },
  };
}
