import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';

/** What Latchkey asked for. */
export interface Expected {
  /** Base64url. */
  challenge: string;
  origins: readonly string[];
  rpId: string;
  /** The flags that must be set: by default those of presence and of verification. */
  demanded?: number;
}

/** What an enrolment proves. */
export interface Enrolled {
  credentialId: string;
  /** SPKI. */
  publicKey: Buffer;
  counter: number;
  backupEligible: boolean;
  backedUp: boolean;
}

/** What a login proves. */
export type Proven = Omit<Enrolled, 'credentialId' | 'publicKey'>;

type Item = number | string | boolean | null | Buffer | Item[] | Map<Item, Item>;

/**
 * Verifies an enrolment (WebAuthn Level 3, section 7.1), and ignores its attestation. It shares no code with Latchkey or
 * the library that Latchkey uses, so that a mistake in one of them is no mistake here.
 * @throws Error that says what is wrong
 */
export function judgeEnrolment(answer: unknown, expected: Expected): Enrolled {
  const { id, rawId, type, response, clientExtensionResults } = answer as Record<string, unknown>;
  const { clientDataJSON, attestationObject } = response as Record<string, unknown>;
  const { credProps } = Object(clientExtensionResults) as { credProps?: { rk?: unknown } };
  check(type === 'public-key' && id === rawId && credProps?.rk !== false, 'envelope');
  checkClientData(bytesOf(clientDataJSON), 'webauthn.create', expected);
  const [attestation, rest] = readItem(bytesOf(attestationObject));
  check(attestation instanceof Map, 'attestation object');
  check(rest.length === 0, 'bytes after the attestation object');
  const data = attestation.get('authData');
  check(Buffer.isBuffer(data), 'authenticator data');
  check(attestation.has('fmt') && attestation.has('attStmt'), 'attestation statement');
  const { attested, ...proven } = readAuthenticatorData(data, expected);
  check(attested !== undefined, 'no credential');
  const credentialId = attested.id.toString('base64url');
  check(credentialId === id, 'another credential');
  const publicKey = keyOf(attested.key).export({ type: 'spki', format: 'der' });
  return { ...proven, credentialId, publicKey };
}

/**
 * Verifies a login (section 7.2).
 * @param publicKey of the credential, SPKI
 * @throws Error that says what is wrong
 */
export function judgeLogin(answer: unknown, expected: Expected, publicKey: Uint8Array): Proven {
  const { id, rawId, type, response } = answer as Record<string, unknown>;
  const { clientDataJSON, authenticatorData, signature } = response as Record<string, unknown>;
  check(type === 'public-key' && id === rawId, 'envelope');
  checkIdLength(bytesOf(id).length);
  const clientData = bytesOf(clientDataJSON);
  checkClientData(clientData, 'webauthn.get', expected);
  const data = bytesOf(authenticatorData);
  const { counter, backupEligible, backedUp } = readAuthenticatorData(data, expected);
  const key = createPublicKey({ key: Buffer.from(publicKey), type: 'spki', format: 'der' });
  const signed = Buffer.concat([data, sha256(clientData)]);
  const hash = key.asymmetricKeyType === 'ed25519' ? null : 'sha256';
  check(verify(hash, signed, key, bytesOf(signature)), 'signature');
  return { counter, backupEligible, backedUp };
}

function checkClientData(bytes: Buffer, type: string, { challenge, origins }: Expected): void {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  const client = JSON.parse(text) as Record<string, unknown>;
  check(client.type === type, 'type');
  check(client.challenge === challenge, 'challenge');
  check(typeof client.origin === 'string' && origins.includes(client.origin), 'origin');
  check(
    [undefined, false].includes(client.crossOrigin as boolean) && client.topOrigin === undefined,
    'frame',
  );
}

function readAuthenticatorData(data: Buffer, { rpId, demanded = 0x05 }: Expected) {
  check(data.length >= 37 && data.subarray(0, 32).equals(sha256(Buffer.from(rpId))), 'RP ID');
  const flags = data.readUInt8(32);
  const [backupEligible, backedUp] = [(flags & 0x08) > 0, (flags & 0x10) > 0];
  check((flags & demanded) === demanded, 'presence and verification');
  check(backupEligible || !backedUp, 'backed up, but not eligible');
  let rest = data.subarray(37);
  let attested: { id: Buffer; key: Item } | undefined;
  if ((flags & 0x40) > 0) {
    const end = 18 + rest.readUInt16BE(16);
    checkIdLength(end - 18);
    const [key, after] = readItem(rest.subarray(end));
    attested = { id: rest.subarray(18, end), key };
    rest = after;
  }
  if ((flags & 0x80) > 0) {
    const [extensions, after] = readItem(rest);
    check(extensions instanceof Map, 'extension outputs');
    rest = after;
  }
  check(rest.length === 0, 'bytes after the authenticator data');
  return { counter: data.readUInt32BE(33), backupEligible, backedUp, attested };
}

function checkIdLength(length: number): void {
  check(length >= 1 && length <= 1023, 'credential id');
}

/** A COSE key (RFC 9053) of an algorithm that Latchkey takes. */
function keyOf(cose: Item): KeyObject {
  check(cose instanceof Map, 'key');
  const part = (label: number, length?: number) => {
    const bytes = cose.get(label);
    check(Buffer.isBuffer(bytes) && (length === undefined || bytes.length === length), `key part ${label}`);
    return bytes.toString('base64url');
  };
  const [type, algorithm, curve] = [cose.get(1), cose.get(3), cose.get(-1)];
  if (type === 2 && algorithm === -7 && curve === 1) {
    const key = { kty: 'EC', crv: 'P-256', x: part(-2, 32), y: part(-3, 32) };
    return createPublicKey({ key, format: 'jwk' });
  }
  if (type === 1 && algorithm === -8 && curve === 6)
    return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: part(-2, 32) }, format: 'jwk' });
  check(type === 3 && algorithm === -257, 'algorithm');
  const key = createPublicKey({ key: { kty: 'RSA', n: part(-1), e: part(-2) }, format: 'jwk' });
  const { modulusLength = 0, publicExponent } = key.asymmetricKeyDetails ?? {};
  check(modulusLength >= 2048 && modulusLength <= 4096 && publicExponent === 65_537n, 'RSA key');
  return key;
}

/** One item of CBOR with definite lengths. @returns it and the bytes after it */
function readItem(bytes: Buffer, depth = 0): [Item, Buffer] {
  check(bytes.length > 0 && depth < 8, 'CBOR');
  const [major, short] = [(bytes[0] ?? 0) >> 5, (bytes[0] ?? 0) & 31];
  check(short < 28, 'CBOR of indefinite length');
  const size = short < 24 ? 0 : 2 ** (short - 24);
  check(bytes.length > size, 'CBOR ends early');
  let argument = short;
  if (size > 0) argument = size === 8 ? Number(bytes.readBigUInt64BE(1)) : bytes.readUIntBE(1, size);
  let rest = bytes.subarray(1 + size);
  if (major === 0) return [argument, rest];
  if (major === 1) return [-1 - argument, rest];
  if (major === 7) {
    check(short >= 20 && short <= 22, 'CBOR of another kind');
    return [{ 20: false, 21: true, 22: null }[short as 20 | 21 | 22], rest];
  }
  check(major !== 6, 'CBOR of another kind');
  check(argument <= rest.length, 'CBOR ends early');
  if (major < 4) {
    const content = rest.subarray(0, argument);
    return [major === 2 ? content : content.toString(), rest.subarray(argument)];
  }
  const items: Item[] = [];
  for (let left = major === 5 ? argument * 2 : argument; left > 0; left--) {
    const [item, after] = readItem(rest, depth + 1);
    items.push(item);
    rest = after;
  }
  if (major === 4) return [items, rest];
  const map = new Map<Item, Item>();
  for (let i = 0; i < items.length; i += 2) map.set(items[i] ?? null, items[i + 1] ?? null);
  check(map.size === argument, 'a key twice');
  return [map, rest];
}

/** Base64url without padding, in its one spelling. */
function bytesOf(text: unknown): Buffer {
  check(typeof text === 'string', 'no text');
  const bytes = Buffer.from(text, 'base64url');
  check(bytes.toString('base64url') === text, 'base64url');
  return bytes;
}

function sha256(bytes: Uint8Array): Buffer {
  return createHash('sha256').update(bytes).digest();
}

function check(isRight: boolean, what: string): asserts isRight {
  if (!isRight) throw new Error(`refused: ${what}`);
}
