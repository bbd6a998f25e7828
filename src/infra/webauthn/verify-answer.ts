import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import { verifyAuthenticationResponse, verifyRegistrationResponse } from '@simplewebauthn/server';
import { isoCBOR } from '@simplewebauthn/server/helpers';
import { ALGORITHMS, HANDLE_BYTES } from '../../domain/passkeys/own-passkeys.ts';
import type { EnrolmentAnswer, LoginAnswer, NewPasskey, VerifyAnswers } from '../../domain/passkeys/ports.ts';
import type { AuthenticatorState } from '../../domain/tokens/ports.ts';

/** Bytes. WebAuthn Level 3, section 4, bounds the id; the others leave room for what authenticators send. */
const SIZES = {
  credentialId: { min: 1, max: 1023 },
  clientData: { min: 1, max: 4096 },
  /** The attested data of an enrolment has the credential's id and key besides. */
  authenticatorData: { min: 37, max: 1024 },
  attestationObject: { min: 1, max: 8192 },
  /** Of RSA with 4,096 bits. */
  signature: { min: 1, max: 512 },
} as const;

/** COSE (RFC 9052 and RFC 9053). */
const [KTY, ALG, CRV, X, Y, N, E] = [1, 3, -1, -2, -3, -1, -2] as const;
const [OKP, EC2, RSA] = [1, 2, 3] as const;
const [P256, ED25519] = [1, 6] as const;
const [ES256, EDDSA, RS256] = ALGORITHMS;

const RSA_BITS = { min: 2048, max: 4096 };
/** The only exponent that is accepted, because a long one would block the event loop at each login. */
const RSA_EXPONENT = 65_537n;

/** How browsers name a transport; others are dropped. */
const TRANSPORT = /^[a-z-]{1,32}$/;
const MAX_TRANSPORTS = 8;

type CoseKey = Map<number, number | Uint8Array>;

/**
 * Verifies answers with @simplewebauthn/server, whose gaps this file fills: sizes and spelling, frames, the
 * key itself, and a counter, which the library would judge before the signature. Whatever it throws is a
 * refusal.
 */
export function makeVerifyAnswers({
  rpId,
  origins,
}: {
  rpId: string;
  origins: readonly string[];
}): VerifyAnswers {
  const expected = { expectedOrigin: [...origins], expectedRPID: rpId };

  return {
    rpId,

    read(answer) {
      const credentialId = idOf(answer);
      const { clientDataJSON, authenticatorData, signature, userHandle } = answer.response;
      const clientData = readClientData(clientDataJSON);
      const isRight =
        decode(authenticatorData, SIZES.authenticatorData) && decode(signature, SIZES.signature);
      if (!credentialId || !clientData || !isRight) return null;
      const handle = decode(userHandle ?? '', { min: HANDLE_BYTES, max: HANDLE_BYTES });
      const isOurs = isFromUs(clientData, 'webauthn.get', origins);
      return { answer, credentialId, handle, challenge: clientData.challenge, isOurs };
    },

    checkLogin: ({ answer, challenge }, publicKey) =>
      orNull(async () => {
        const { verified, authenticationInfo: info } = await verifyAuthenticationResponse({
          ...expected,
          expectedChallenge: challenge,
          response: forLibrary(answer),
          credential: { id: answer.id, publicKey: coseOf(publicKey), counter: 0 },
          requireUserVerification: true,
        });
        return verified ? stateOf(info, info.newCounter) : null;
      }),

    checkEnrolment: (answer, challenge) =>
      orNull(async () => {
        if (answer.clientExtensionResults?.credProps?.rk === false) return null;
        const { clientDataJSON, attestationObject, transports = [] } = answer.response;
        const clientData = readClientData(clientDataJSON);
        const credentialId = idOf(answer);
        const statement = decode(attestationObject, SIZES.attestationObject);
        if (!credentialId || !statement || !clientData) return null;
        if (!isFromUs(clientData, 'webauthn.create', origins)) return null;
        const { verified, registrationInfo: info } = await verifyRegistrationResponse({
          ...expected,
          expectedChallenge: Buffer.from(challenge).toString('base64url'),
          response: {
            ...forLibrary(answer),
            response: { clientDataJSON, attestationObject: withoutStatement(statement) },
          },
          requireUserPresence: true,
          requireUserVerification: true,
          supportedAlgorithmIDs: [...ALGORITHMS],
        });
        if (!verified || info.credential.id !== answer.id) return null;
        return {
          credentialId,
          publicKey: spkiOf(info.credential.publicKey),
          transports: [...new Set(transports)]
            .filter((name) => TRANSPORT.test(name))
            .slice(0, MAX_TRANSPORTS),
          ...stateOf(info, info.credential.counter),
        } satisfies NewPasskey;
      }),
  };
}

/**
 * The library says what is wrong by an error. Nobody is told, since the client is to blame, or an attacker.
 */
async function orNull<Result>(check: () => Promise<Result | null>): Promise<Result | null> {
  try {
    return await check();
  } catch {
    return null;
  }
}

/** @returns null unless it is base64url in its only spelling, without padding, and of this size. */
function decode(text: string, { min, max }: { min: number; max: number }): Buffer | null {
  const bytes = Buffer.from(text, 'base64url');
  const isRight = bytes.length >= min && bytes.length <= max && bytes.toString('base64url') === text;
  return isRight ? bytes : null;
}

function idOf({ id, rawId, type }: LoginAnswer | EnrolmentAnswer): Buffer | null {
  return id === rawId && type === 'public-key' ? decode(id, SIZES.credentialId) : null;
}

interface ClientData {
  type: unknown;
  challenge: string;
  origin: unknown;
  crossOrigin?: unknown;
  topOrigin?: unknown;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function readClientData(text: string): ClientData | null {
  const bytes = decode(text, SIZES.clientData);
  if (!bytes) return null;
  try {
    const value = JSON.parse(UTF8.decode(bytes)) as Partial<ClientData> | null;
    return typeof value?.challenge === 'string' ? (value as ClientData) : null;
  } catch {
    return null;
  }
}

/** WebAuthn Level 3, section 5.8.1. In a frame, another site's page would surround the question. */
function isFromUs(
  { type, origin, crossOrigin = false, topOrigin }: ClientData,
  expectedType: string,
  origins: readonly unknown[],
): boolean {
  const isFramed = crossOrigin !== false || topOrigin !== undefined;
  return type === expectedType && origins.includes(origin) && !isFramed;
}

/** Without the members that we ignore. */
function forLibrary<Answer extends LoginAnswer | EnrolmentAnswer>({ id, rawId, response }: Answer) {
  return {
    id,
    rawId,
    type: 'public-key' as const,
    response: response as Answer['response'],
    clientExtensionResults: {},
  };
}

/** The same object with an empty statement, so that no certificate of a stranger's is parsed. */
function withoutStatement(attestationObject: Uint8Array): string {
  const decoded = isoCBOR.decodeFirst<Map<unknown, unknown>>(Uint8Array.from(attestationObject));
  const authData = decoded.get('authData');
  if (!(authData instanceof Uint8Array)) throw new TypeError('no authData');
  const emptied = new Map<string, unknown>([
    ['fmt', 'none'],
    ['attStmt', new Map()],
    ['authData', authData],
  ]);
  const encoded = isoCBOR.encode(emptied as Parameters<typeof isoCBOR.encode>[0]);
  return Buffer.from(encoded).toString('base64url');
}

function stateOf(
  info: { credentialDeviceType: string; credentialBackedUp: boolean },
  counter: number,
): AuthenticatorState {
  return {
    counter,
    backupEligible: info.credentialDeviceType === 'multiDevice',
    backedUp: info.credentialBackedUp,
  };
}

/** Imports the key, which finds a point that is not on its curve. @throws unless we take such a key */
function spkiOf(cose: Uint8Array): Buffer {
  const key = createPublicKey({
    key: jwkOf(isoCBOR.decodeFirst<CoseKey>(Uint8Array.from(cose))),
    format: 'jwk',
  });
  const { modulusLength, publicExponent } = key.asymmetricKeyDetails ?? {};
  const isRsa = key.asymmetricKeyType === 'rsa';
  if (isRsa && !(modulusLength && modulusLength >= RSA_BITS.min && modulusLength <= RSA_BITS.max))
    throw new RangeError('modulus');
  if (isRsa && publicExponent !== RSA_EXPONENT) throw new RangeError('exponent');
  return key.export({ format: 'der', type: 'spki' });
}

/** @throws unless key type, curve and algorithm belong together */
function jwkOf(cose: CoseKey): JsonWebKey {
  const text = (label: number) => {
    const value = cose.get(label);
    if (!(value instanceof Uint8Array)) throw new TypeError('no key');
    return Buffer.from(value).toString('base64url');
  };
  const kind = [cose.get(KTY), cose.get(ALG)].join();
  if (kind === [EC2, ES256].join() && cose.get(CRV) === P256)
    return { kty: 'EC', crv: 'P-256', x: text(X), y: text(Y) };
  if (kind === [OKP, EDDSA].join() && cose.get(CRV) === ED25519)
    return { kty: 'OKP', crv: 'Ed25519', x: text(X) };
  if (kind === [RSA, RS256].join()) return { kty: 'RSA', n: text(N), e: text(E) };
  throw new TypeError('algorithm');
}

/** What the library takes, from what the record holds. */
function coseOf(spki: Uint8Array): Uint8Array<ArrayBuffer> {
  const key = createPublicKey({ key: Buffer.from(spki), format: 'der', type: 'spki' });
  return Uint8Array.from(isoCBOR.encode(new Map(coseMembers(key))));
}

function coseMembers(key: KeyObject): [number, number | Uint8Array][] {
  const { x = '', y = '', n = '', e = '' } = key.export({ format: 'jwk' });
  const bytes = (text: string) => Uint8Array.from(Buffer.from(text, 'base64url'));
  switch (key.asymmetricKeyType) {
    case 'ec':
      return [
        [KTY, EC2],
        [ALG, ES256],
        [CRV, P256],
        [X, bytes(x)],
        [Y, bytes(y)],
      ];
    case 'ed25519':
      return [
        [KTY, OKP],
        [ALG, EDDSA],
        [CRV, ED25519],
        [X, bytes(x)],
      ];
    default:
      return [
        [KTY, RSA],
        [ALG, RS256],
        [N, bytes(n)],
        [E, bytes(e)],
      ];
  }
}
