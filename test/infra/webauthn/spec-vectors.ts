import {
  createECDH,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';
import { aPasskey, FLAGS, type Algorithm } from '../../support/authenticator.ts';

const RP_ID = 'example.org';
/** The order of P-256. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;

export interface Recipe {
  algorithm?: Algorithm;
  idLength?: number;
  members?: Record<string, unknown>;
  /** How many values the specification derives for the attestation statement. */
  statementValues?: number;
}

export type SpecVector = ReturnType<typeof deriveVector>;

/**
 * An example of WebAuthn Level 3, section 16, made by the recipe that the section gives: each random value is HKDF of the
 * same input key material with the example's name, ECDSA signs with the nonce of RFC 6979, and the primes of the RSA key
 * are Mersenne's. It has no attestation statement, because Latchkey reads none.
 */
export function deriveVector(name: string, recipe: Recipe = {}) {
  const { algorithm = 'ES256', idLength = 32, members = {}, statementValues = 0 } = recipe;
  let salt = 0;
  const next = (length: number) =>
    Buffer.from(hkdfSync('sha256', 'WebAuthn test vectors', Buffer.of(salt++), name, length));
  const clientMembers = () => {
    if (((next(1)[0] ?? 0) & 1) === 0) return members;
    const random = next(16).toString('base64url');
    const extraData = `clientDataJSON may be extended with additional fields in the future, such as this: ${random}`;
    return { ...members, extraData };
  };

  const creation = { challenge: next(32).toString('base64url'), rp: { id: RP_ID }, user: { id: 'AA' } };
  const secret = algorithm === 'RS256' ? Buffer.of() : next(32);
  const enrolmentMembers = clientMembers();
  const [aaguid, credentialId] = [next(16), next(idLength)];
  const passkey = aPasskey({ algorithm, privateKey: PRIVATE_KEYS[algorithm](secret), aaguid, credentialId });
  let flags = (name.startsWith('fido-u2f') ? 0 : (next(1)[0] ?? 0)) & (FLAGS.uv | FLAGS.be | FLAGS.bs);
  const isEligible = (flags & FLAGS.be) > 0;
  if (!isEligible) flags &= FLAGS.uv;
  const enrolment = passkey.enrol(creation, { flags: flags | FLAGS.up, clientMembers: enrolmentMembers });
  salt += statementValues;

  const request = { challenge: next(32).toString('base64url'), rpId: RP_ID };
  const loginMembers = clientMembers();
  flags = (next(1)[0] ?? 0) & (isEligible ? FLAGS.uv | FLAGS.bs : FLAGS.uv);
  if (isEligible) flags |= FLAGS.be;
  const login = passkey.logIn(request, {
    flags: flags | FLAGS.up,
    clientMembers: loginMembers,
    ...(algorithm === 'ES256' && { signature: (_right, signed) => signDeterministically(signed, secret) }),
  });

  return {
    creation,
    request,
    enrolment,
    login,
    publicKey: createPublicKey(passkey.privateKey).export({ type: 'spki', format: 'der' }),
    /** SHA-256 of authenticator data and client data, and at the login of the signature, to compare with others. */
    digests: {
      enrolment: digestOf(authenticatorDataIn(enrolment.response.attestationObject), [
        enrolment.response.clientDataJSON,
      ]),
      login: digestOf(Buffer.from(login.response.authenticatorData, 'base64url'), [
        login.response.clientDataJSON,
        login.response.signature,
      ]),
    },
  };
}

/** The statement is empty, so the authenticator data are all that follows their name and length. */
function authenticatorDataIn(attestationObject: string): Buffer {
  const bytes = Buffer.from(attestationObject, 'base64url');
  const start = bytes.indexOf('authData') + 'authData'.length;
  return bytes.subarray(start + (bytes[start] === 0x58 ? 2 : 3));
}

function digestOf(first: Buffer, others: readonly string[]): string {
  const bytes = [first, ...others.map((other) => Buffer.from(other, 'base64url'))];
  return createHash('sha256').update(Buffer.concat(bytes)).digest('hex');
}

const PRIVATE_KEYS: Record<Algorithm, (secret: Buffer) => KeyObject> = {
  ES256: (secret) => ecPrivateKey('prime256v1', 'P-256', secret),
  ES384: (secret) => ecPrivateKey('secp384r1', 'P-384', secret),
  Ed25519: (secret) => {
    const prefix = Buffer.from('302e020100300506032b657004220420', 'hex');
    return createPrivateKey({ key: Buffer.concat([prefix, secret]), format: 'der', type: 'pkcs8' });
  },
  RS256() {
    const [p, q, e] = [2n ** 1279n - 1n, 2n ** 2203n - 1n, 65_537n];
    const d = inverse(e, (p - 1n) * (q - 1n));
    const parts = { n: p * q, e, d, p, q, dp: d % (p - 1n), dq: d % (q - 1n), qi: inverse(q, p) };
    const key = Object.fromEntries(Object.entries(parts).map(([part, value]) => [part, textOf(value)]));
    return createPrivateKey({ key: { kty: 'RSA', ...key }, format: 'jwk' });
  },
};

function ecPrivateKey(curve: string, crv: string, secret: Buffer): KeyObject {
  const ecdh = createECDH(curve);
  ecdh.setPrivateKey(secret);
  const point = ecdh.getPublicKey();
  const text = (part: Buffer) => part.toString('base64url');
  const half = 1 + secret.length;
  const key = {
    kty: 'EC',
    crv,
    d: text(secret),
    x: text(point.subarray(1, half)),
    y: text(point.subarray(half)),
  };
  return createPrivateKey({ key, format: 'jwk' });
}

/** ECDSA with P-256 and SHA-256, and the nonce of RFC 6979. */
function signDeterministically(data: Uint8Array, secret: Buffer): Buffer {
  const digest = numberOf(createHash('sha256').update(data).digest());
  const seed = Buffer.concat([secret, bytesOf(digest % ORDER, 32)]);
  let [key, value] = [Buffer.alloc(32), Buffer.alloc(32, 1)];
  const hmac = (...parts: Buffer[]) => createHmac('sha256', key).update(Buffer.concat(parts)).digest();
  for (const round of [0, 1]) {
    key = hmac(value, Buffer.of(round), seed);
    value = hmac(value);
  }
  const nonce = hmac(value);
  const ecdh = createECDH('prime256v1');
  ecdh.setPrivateKey(nonce);
  const r = numberOf(ecdh.getPublicKey().subarray(1, 33)) % ORDER;
  const s = (inverse(numberOf(nonce), ORDER) * (digest + r * numberOf(secret))) % ORDER;
  const content = Buffer.concat([derInteger(r), derInteger(s)]);
  return Buffer.concat([Buffer.of(0x30, content.length), content]);
}

function derInteger(value: bigint): Buffer {
  const bytes = bytesOf(value);
  const positive = (bytes[0] ?? 0) < 0x80 ? bytes : Buffer.concat([Buffer.of(0), bytes]);
  return Buffer.concat([Buffer.of(2, positive.length), positive]);
}

/** By the extended algorithm of Euclid. */
function inverse(value: bigint, modulus: bigint): bigint {
  let [a, b, x, y] = [value % modulus, modulus, 1n, 0n];
  while (a > 0n) [a, b, x, y] = [b % a, a, y - (b / a) * x, x];
  return ((y % modulus) + modulus) % modulus;
}

function numberOf(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes).toString('hex')}`);
}

function bytesOf(value: bigint, length = Math.ceil(value.toString(16).length / 2)): Buffer {
  return Buffer.from(value.toString(16).padStart(length * 2, '0'), 'hex');
}

function textOf(value: bigint): string {
  return bytesOf(value).toString('base64url');
}
