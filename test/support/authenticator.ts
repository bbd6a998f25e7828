import {
  createHash,
  generateKeyPairSync,
  randomBytes,
  sign as signWith,
  type JsonWebKey,
  type KeyObject,
} from 'node:crypto';
import { encodeCbor, type Cbor } from './cbor.ts';

/** The bits of the flags in authenticator data (WebAuthn Level 3, section 6.1). */
export const FLAGS = { up: 0x01, uv: 0x04, be: 0x08, bs: 0x10, at: 0x40, ed: 0x80 } as const;

/** ES384 is none of those that Latchkey takes. */
export type Algorithm = 'ES256' | 'Ed25519' | 'RS256' | 'ES384';

/** Of `PublicKeyCredentialCreationOptionsJSON`, as far as an authenticator reads it. */
export interface CreationOptions {
  challenge: string;
  rp: { id: string };
  user: { id: string };
}

/** Of `PublicKeyCredentialRequestOptionsJSON`. */
export interface RequestOptions {
  challenge: string;
  rpId: string;
}

/** What an answer of the authenticator or the browser has instead of the right value. */
export interface Oddities {
  type?: string;
  /** Base64url. */
  challenge?: string;
  origin?: string;
  rpId?: string;
  /** Other members of the client data, such as `crossOrigin` and `topOrigin`. */
  clientMembers?: Record<string, unknown>;
  /** Makes other client data of those that the above describe. They are signed. */
  clientData?: (right: Buffer) => Uint8Array;
  /** Without AT, which an enrolment adds. */
  flags?: number;
  counter?: number;
  /** Follows the authenticator data, and is signed. */
  suffix?: Uint8Array;
}

export interface EnrolmentOddities extends Oddities {
  credentialId?: Uint8Array;
  /** The encoded COSE key. */
  coseKey?: Uint8Array;
  format?: string;
  statement?: Cbor;
  /** Makes the attestation object of its entries. */
  attestationObject?: (entries: ReadonlyMap<Cbor, Cbor>) => Uint8Array;
  extensions?: object;
}

export interface LoginOddities extends Oddities {
  credentialId?: Uint8Array;
  /** Base64url; null leaves it away. */
  userHandle?: string | null;
  /** @param signed what it is made of */
  signature?: (right: Buffer, signed: Buffer) => Uint8Array;
}

export interface RegistrationAnswer {
  id: string;
  rawId: string;
  type: string;
  authenticatorAttachment: string;
  clientExtensionResults: object;
  response: { clientDataJSON: string; attestationObject: string; transports: string[] };
}

export interface AuthenticationAnswer {
  id: string;
  rawId: string;
  type: string;
  authenticatorAttachment: string;
  clientExtensionResults: object;
  response: { clientDataJSON: string; authenticatorData: string; signature: string; userHandle?: string };
}

export interface PasskeyParts {
  algorithm?: Algorithm;
  /** Of an RSA key. */
  bits?: number;
  /** By default a new one. */
  privateKey?: KeyObject;
  credentialId?: Uint8Array;
  aaguid?: Uint8Array;
  /** Base64url. By default that of the account that it is enrolled for. */
  userHandle?: string;
  /** By default `https://` and the RP ID. */
  origin?: string;
  /** By default those of a synced passkey after Face ID or a PIN. */
  flags?: number;
}

export type SoftwarePasskey = ReturnType<typeof aPasskey>;

/** A passkey of an authenticator in software. It enrols and logs in, honestly or with any oddity. */
export function aPasskey(parts: PasskeyParts = {}) {
  const { algorithm = 'ES256', bits = 2048, aaguid = Buffer.alloc(16) } = parts;
  const { privateKey = newKey(algorithm, bits), credentialId = randomBytes(32) } = parts;
  const { flags: usual = FLAGS.up | FLAGS.uv | FLAGS.be | FLAGS.bs } = parts;
  const jwk = privateKey.export({ format: 'jwk' });
  const coseKey = encodeCbor(new Map(COSE[algorithm](jwk)));
  let { userHandle } = parts;

  /** @returns the bytes of both parts */
  function dataOf(type: string, challenge: string, rpId: string, oddities: Oddities, attested?: Uint8Array) {
    const { origin = parts.origin ?? `https://${rpId}`, flags = usual, counter = 0 } = oddities;
    const members = {
      type: oddities.type ?? type,
      challenge: oddities.challenge ?? challenge,
      origin,
      crossOrigin: false,
      ...oddities.clientMembers,
    };
    const described = Buffer.from(JSON.stringify(members));
    const clientData = Buffer.from(oddities.clientData?.(described) ?? described);
    const header = Buffer.alloc(5);
    header.writeUInt8(attested ? flags | FLAGS.at : flags);
    header.writeUInt32BE(counter, 1);
    const rest = [attested ?? Buffer.of(), oddities.suffix ?? Buffer.of()];
    return {
      clientData,
      authenticatorData: Buffer.concat([sha256(oddities.rpId ?? rpId), header, ...rest]),
    };
  }

  return {
    credentialId: Buffer.from(credentialId),
    coseKey,
    privateKey,
    /** The answer to `navigator.credentials.create`. */
    enrol(options: CreationOptions, oddities: EnrolmentOddities = {}): RegistrationAnswer {
      const id = Buffer.from(oddities.credentialId ?? credentialId);
      const length = Buffer.alloc(2);
      length.writeUInt16BE(id.length);
      const attested = Buffer.concat([aaguid, length, id, oddities.coseKey ?? coseKey]);
      const { clientData, authenticatorData } = dataOf(
        'webauthn.create',
        options.challenge,
        options.rp.id,
        oddities,
        attested,
      );
      const entries = new Map<Cbor, Cbor>([
        ['fmt', oddities.format ?? 'none'],
        ['attStmt', oddities.statement ?? new Map()],
        ['authData', authenticatorData],
      ]);
      userHandle = options.user.id;
      return {
        ...envelope(id, oddities.extensions ?? { credProps: { rk: true } }),
        response: {
          clientDataJSON: clientData.toString('base64url'),
          attestationObject: Buffer.from((oddities.attestationObject ?? encodeCbor)(entries)).toString(
            'base64url',
          ),
          transports: ['internal', 'hybrid'],
        },
      };
    },
    /** The answer to `navigator.credentials.get`. */
    logIn(options: RequestOptions, oddities: LoginOddities = {}): AuthenticationAnswer {
      const { clientData, authenticatorData } = dataOf(
        'webauthn.get',
        options.challenge,
        options.rpId,
        oddities,
      );
      const signed = Buffer.concat([authenticatorData, sha256(clientData)]);
      const right = signWith(HASHES[algorithm], signed, privateKey);
      const handle = oddities.userHandle === undefined ? userHandle : oddities.userHandle;
      return {
        ...envelope(Buffer.from(oddities.credentialId ?? credentialId), {}),
        response: {
          clientDataJSON: clientData.toString('base64url'),
          authenticatorData: authenticatorData.toString('base64url'),
          signature: Buffer.from(oddities.signature?.(right, signed) ?? right).toString('base64url'),
          ...(typeof handle === 'string' && { userHandle: handle }),
        },
      };
    },
  };
}

/** Each algorithm's COSE key (RFC 9053) from a JSON Web Key. */
const COSE: Record<Algorithm, (jwk: JsonWebKey) => [Cbor, Cbor][]> = {
  ES256: ({ x, y }) => ecKey(-7, 1, bytesOf(x), bytesOf(y)),
  ES384: ({ x, y }) => ecKey(-35, 2, bytesOf(x), bytesOf(y)),
  Ed25519: ({ x }) => [
    [1, 1],
    [3, -8],
    [-1, 6],
    [-2, bytesOf(x)],
  ],
  RS256: ({ n, e }) => rsaKey(bytesOf(n), bytesOf(e)),
};

const HASHES = { ES256: 'sha256', ES384: 'sha384', RS256: 'sha256', Ed25519: null } as const;

export function ecKey(algorithm: number, curve: number, x: Uint8Array, y: Uint8Array): [Cbor, Cbor][] {
  return [
    [1, 2],
    [3, algorithm],
    [-1, curve],
    [-2, x],
    [-3, y],
  ];
}

export function rsaKey(modulus: Uint8Array, exponent: Uint8Array): [Cbor, Cbor][] {
  return [
    [1, 3],
    [3, -257],
    [-1, modulus],
    [-2, exponent],
  ];
}

function newKey(algorithm: Algorithm, bits: number): KeyObject {
  if (algorithm === 'Ed25519') return generateKeyPairSync('ed25519').privateKey;
  if (algorithm === 'RS256') return generateKeyPairSync('rsa', { modulusLength: bits }).privateKey;
  return generateKeyPairSync('ec', { namedCurve: algorithm === 'ES256' ? 'P-256' : 'P-384' }).privateKey;
}

function envelope(id: Buffer, clientExtensionResults: object) {
  const text = id.toString('base64url');
  return {
    id: text,
    rawId: text,
    type: 'public-key',
    authenticatorAttachment: 'platform',
    clientExtensionResults,
  };
}

function bytesOf(base64url: string | undefined): Buffer {
  return Buffer.from(base64url ?? '', 'base64url');
}

function sha256(data: string | Uint8Array): Buffer {
  return createHash('sha256').update(data).digest();
}
