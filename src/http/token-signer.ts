import { createHmac, createPrivateKey, createSecretKey, sign, type KeyObject } from 'node:crypto';
import type { SigningKey } from '../domain/access-tokens/ports.ts';

export interface TokenSignerOptions {
  kid: string;
  /** The `typ` of the header. */
  typ: string;
  algorithm: SigningKey['algorithm'] | 'HS256';
  /** A PEM private key, or the secret of HS256. */
  key: string | Buffer;
  /** Claims that every token gets. */
  fixed: object;
}

/**
 * Signs JWTs (RFC 7515, section 3.1) with one key. @fastify/jwt would merge its options and encode the header anew for
 * every token, and a refresh signs two (docs/adr/0004-one-jwt-instance-a-key.md).
 */
export function makeTokenSigner({ kid, typ, algorithm, key, fixed }: TokenSignerOptions) {
  const header = encode({ alg: algorithm, typ, kid });
  const signature = signatureOf(algorithm, key);
  return function signToken(claims: object): string {
    const input = `${header}.${encode({ ...claims, ...fixed })}`;
    return `${input}.${signature(input)}`;
  };
}

function encode(part: object): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

function signatureOf(
  algorithm: TokenSignerOptions['algorithm'],
  key: string | Buffer,
): (input: string) => string {
  if (algorithm === 'HS256') {
    const secret = createSecretKey(Buffer.from(key));
    return (input) => createHmac('sha256', secret).update(input).digest('base64url');
  }
  const privateKey: KeyObject = createPrivateKey(key);
  // EdDSA has its own hash. JWS writes an ECDSA signature as two numbers (RFC 7518, section 3.4), not as DER.
  const digest = algorithm === 'EdDSA' ? null : 'sha256';
  const options = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const;
  return (input) => sign(digest, Buffer.from(input), options).toString('base64url');
}
