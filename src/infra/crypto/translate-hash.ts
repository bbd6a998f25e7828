/**
 * Turns the hashes of some systems into the text by which another system stores the same: then one format has one
 * reader, and replicas of 1.0.0 can check it too.
 * @param value text, or Keycloak's object.
 * @returns null if it is neither; other text as it is.
 */
export function translateHash(value: unknown): string | null {
  if (typeof value === 'object' && value !== null) return fromKeycloak(value);
  if (typeof value !== 'string') return null;
  const [, djangoBcrypt] = /^bcrypt\$(\$2.*)$/.exec(value) ?? [];
  if (djangoBcrypt !== undefined) return djangoBcrypt;
  const [, encoder, encoded = ''] = SPRING.exec(value) ?? [];
  if (encoder !== undefined) return fromSpring(encoder, encoded);
  return ASP_NET.test(value) ? fromAspNet(Buffer.from(value, 'base64')) : value;
}

/** What Spring's `PasswordEncoderFactories` writes. */
const SPRING = /^\{(argon2|bcrypt|pbkdf2|scrypt)(?:@SpringSecurity_v5_8)?\}(.*)$/;

function fromSpring(encoder: string, encoded: string): string | null {
  if (encoder === 'scrypt') return fromSpringScrypt(encoded);
  return encoder === 'pbkdf2' ? fromSpringPbkdf2(encoded) : encoded;
}

/** The first part holds the logarithm of N, then r and p in a byte each. */
function fromSpringScrypt(encoded: string): string | null {
  const parts = /^\$([0-9a-f]{5,6})\$([A-Za-z0-9+/]+)={0,2}\$([A-Za-z0-9+/]+)={0,2}$/.exec(encoded);
  if (!parts) return null;
  const [, parameters = '', salt = '', key = ''] = parts;
  const value = parseInt(parameters, 16);
  return `$scrypt$ln=${value >> 16},r=${(value >> 8) & 0xff},p=${value & 0xff}$${salt}$${key}`;
}

/** Salt and key without parameters, which are the defaults of one of two versions. The key has 32 bytes. */
const SPRING_PBKDF2 = [
  { saltBytes: 8, format: '$pbkdf2$185000' },
  { saltBytes: 16, format: '$pbkdf2-sha256$310000' },
];

function fromSpringPbkdf2(encoded: string): string | null {
  if (!/^([0-9a-f]{2})+$/.test(encoded)) return null;
  const bytes = Buffer.from(encoded, 'hex');
  const found = SPRING_PBKDF2.find(({ saltBytes }) => bytes.length === saltBytes + 32);
  return found
    ? passlib(found.format, bytes.subarray(0, found.saltBytes), bytes.subarray(found.saltBytes))
    : null;
}

/** Version 3, whose first byte is 1. The digest that follows is below 3. */
const ASP_NET = /^AQAAAA[A-Za-z0-9+/]+={0,2}$/;

const ASP_NET_FORMATS = ['$pbkdf2', '$pbkdf2-sha256', '$pbkdf2-sha512'];

function fromAspNet(bytes: Buffer): string | null {
  const header = 13;
  if (bytes.length < header) return null;
  const [digest, iterations, saltBytes] = [1, 5, 9].map((at) => bytes.readUInt32BE(at)) as [
    number,
    number,
    number,
  ];
  const format = ASP_NET_FORMATS[digest];
  if (format === undefined || header + saltBytes >= bytes.length) return null;
  const [salt, key] = [bytes.subarray(header, header + saltBytes), bytes.subarray(header + saltBytes)];
  return passlib(`${format}$${iterations}`, salt, key);
}

function passlib(format: string, salt: Buffer, key: Buffer): string {
  const [saltText, keyText] = [salt, key].map((bytes) => dotted(bytes.toString('base64').replace(/=+$/, '')));
  return `${format}$${saltText}$${keyText}`;
}

/**
 * Keycloak stores a password as two JSON texts, of which an export of a realm makes one object. Its PBKDF2 in passlib's
 * format, and its argon2 in the PHC string format.
 * @param credential `{ credentialData, secretData }`, each as text or as the object in it.
 * @returns null if it is neither.
 */
function fromKeycloak(credential: object): string | null {
  const { credentialData, secretData } = credential as Record<string, unknown>;
  const [how, secret] = [objectOf(credentialData), objectOf(secretData)];
  if (!how || !secret) return null;
  const { algorithm, hashIterations, additionalParameters } = how;
  const [salt, key] = [base64Of(secret.salt), base64Of(secret.value)];
  if (salt === null || key === null || !Number.isSafeInteger(hashIterations)) return null;
  const iterations = Number(hashIterations);
  if (algorithm === 'argon2') return keycloakArgon2(objectOf(additionalParameters), iterations, salt, key);
  if (typeof algorithm !== 'string' || !/^pbkdf2(-sha256|-sha512)?$/.test(algorithm)) return null;
  return `$${algorithm}$${iterations}$${dotted(salt)}$${dotted(key)}`;
}

function keycloakArgon2(
  parameters: Record<string, unknown> | null,
  passes: number,
  salt: string,
  key: string,
): string | null {
  // Each parameter is a list of one text.
  const { type, version, memory, parallelism } = Object.fromEntries(
    Object.entries(parameters ?? {}).map(([name, value]) => [name, Array.isArray(value) ? value[0] : value]),
  ) as Record<string, unknown>;
  if (version !== '1.3') return null;
  return `$argon2${String(type)}$v=19$m=${String(memory)},t=${passes},p=${String(parallelism)}$${salt}$${key}`;
}

function objectOf(value: unknown): Record<string, unknown> | null {
  if (typeof value !== 'string') return isObject(value) ? value : null;
  try {
    const parsed: unknown = JSON.parse(value);
    return isObject(parsed) ? parsed : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @returns base64 without padding. */
function base64Of(value: unknown): string | null {
  if (typeof value !== 'string' || !/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return null;
  return value.replace(/=+$/, '');
}

function dotted(base64: string): string {
  return base64.replaceAll('+', '.');
}
