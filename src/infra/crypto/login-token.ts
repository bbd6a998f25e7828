import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { KeyRing } from '../../domain/access-tokens/ports.ts';
import type { LoginProof, LoginTokens } from '../../domain/factors/login-token.ts';
import { followSecrets } from './keyed-hashes.ts';

/** By which secret scanners find a leaked one, and which no other token of ours has. */
const PREFIX = 'lkl_';
/** User id, version of the password, and time of issue, 8 bytes each. */
const CLAIMS_BYTES = 24;
const MAC_BYTES = 32;

/**
 * Signs what stands between the two steps of a login. The key is for this purpose alone, so no other token of ours is
 * taken for one, and the other way round.
 * @param secret any secret that all replicas share.
 */
function makeMac(secret: Buffer) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'latchkey login token', 32));
  return (claims: Buffer) => createHmac('sha256', key).update(claims).digest();
}

/** Login tokens under the newest refresh secret; one under an earlier secret is good too. */
export function followLoginTokens(keyRing: KeyRing): LoginTokens {
  let [newest, all] = followSecrets(keyRing, makeMac, (macs) => {
    [newest, all] = macs;
  });
  return {
    issue({ userId, passwordVersion, issuedAt }) {
      const claims = Buffer.alloc(CLAIMS_BYTES);
      for (const [i, value] of [userId, passwordVersion, issuedAt].entries())
        claims.writeBigUInt64BE(BigInt(value), i * 8);
      return PREFIX + Buffer.concat([claims, newest(claims)]).toString('base64url');
    },

    read(token): LoginProof | null {
      if (!token.startsWith(PREFIX)) return null;
      const encoded = token.slice(PREFIX.length);
      const bytes = Buffer.from(encoded, 'base64url');
      // Node's decoder skips invalid characters: a token has one spelling only.
      if (bytes.length !== CLAIMS_BYTES + MAC_BYTES || bytes.toString('base64url') !== encoded) return null;
      const claims = bytes.subarray(0, CLAIMS_BYTES);
      const given = bytes.subarray(CLAIMS_BYTES);
      if (!all.some((mac) => timingSafeEqual(mac(claims), given))) return null;
      const [userId, passwordVersion, issuedAt] = [0, 8, 16].map((at) => Number(claims.readBigUInt64BE(at)));
      return { userId: userId ?? 0, passwordVersion: passwordVersion ?? 0, issuedAt: issuedAt ?? 0 };
    },
  };
}
