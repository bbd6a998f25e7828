import { LONGEST_TEXT } from './foreign-hash.ts';

/**
 * Turns the hashes of some systems into the text by which another system stores the same, in one of its spellings: then
 * one format has one reader, and older replicas can check it too.
 * @param value text, or Keycloak's object.
 * @returns null if it is neither; other text as it is.
 */
export function translateHash(value: unknown): string | null {
  if (typeof value === 'object' && value !== null) return fromKeycloak(value);
  if (typeof value !== 'string') return null;
  if (value.length > LONGEST_TEXT) return value;
  const text = unwrapped(value);
  const [, encoder, encoded = ''] = SPRING.exec(text) ?? [];
  if (encoder !== undefined) return fromSpring(encoder.toLowerCase(), encoded);
  if (!ASP_NET.test(text)) return spelled(text);
  const base64 = respell(text, PADDED);
  return base64 === null ? null : fromAspNet(Buffer.from(base64, 'base64'));
}

/** Schemes that stand before a whole hash of bcrypt or argon2: those of LDAP, Dovecot, Spring and Django. */
const WRAPPED = [
  /^bcrypt\$(\$2.*)$/i,
  /^\{(?:crypt|blf-crypt|bcrypt)(?:@SpringSecurity_v5_8)?\}(\$2.*)$/i,
  /^\{argon2(?:id|i|d)?(?:@SpringSecurity_v5_8)?\}(\$argon2.*)$/i,
];

function unwrapped(text: string): string {
  for (const pattern of WRAPPED) {
    const [, hash] = pattern.exec(text) ?? [];
    if (hash !== undefined) return hash;
  }
  return text;
}

/** How base64 is spelled in a format: with or without padding, and with `.` for `+`. */
interface Spelling {
  isPadded: boolean;
  plus: '+' | '.';
}

const PADDED: Spelling = { isPadded: true, plus: '+' };
const BARE: Spelling = { isPadded: false, plus: '+' };
const DOTTED: Spelling = { isPadded: false, plus: '.' };

const LAST_FIELD = /[^$]*$/;
const LAST_TWO_FIELDS = /(?<=\$)[^$]*(?=(?:\$[^$]*)?$)/g;
/** And the values of salt separator and signer key. */
const FIREBASE_FIELDS = /(?<=,s[sk]=)[^,$]*|(?<=\$)[^$]*(?=(?:\$[^$]*)?$)/g;

/** How a format begins, and where it holds base64. bcrypt and phpass have alphabets of their own. */
const SCHEMES: readonly [scheme: string, spelling?: Spelling, fields?: RegExp][] = [
  ['$argon2id$', BARE, LAST_TWO_FIELDS],
  ['$argon2i$', BARE, LAST_TWO_FIELDS],
  ['$argon2d$', BARE, LAST_TWO_FIELDS],
  ['argon2$argon2id$', BARE, LAST_TWO_FIELDS],
  ['argon2$argon2i$', BARE, LAST_TWO_FIELDS],
  ['argon2$argon2d$', BARE, LAST_TWO_FIELDS],
  ['$scrypt$', BARE, LAST_TWO_FIELDS],
  ['$pbkdf2$', DOTTED, LAST_TWO_FIELDS],
  ['$pbkdf2-sha256$', DOTTED, LAST_TWO_FIELDS],
  ['$pbkdf2-sha512$', DOTTED, LAST_TWO_FIELDS],
  ['pbkdf2_sha256$', PADDED, LAST_FIELD],
  ['scrypt$', PADDED, LAST_FIELD],
  ['$fbscrypt$', PADDED, FIREBASE_FIELDS],
  ['{SSHA}', PADDED, LAST_FIELD],
  ['{SSHA256}', PADDED, LAST_FIELD],
  ['{SSHA512}', PADDED, LAST_FIELD],
  ['$2a$'],
  ['$2b$'],
  ['$2y$'],
  ['$wp$2y$'],
  ['bcrypt_sha256$$2b$'],
  ['$P$'],
  ['$H$'],
];

/** @returns the text in the spelling that its format's reader knows; null if a field is no base64, or cut off. */
function spelled(text: string): string | null {
  const found = SCHEMES.find(([each]) => text.slice(0, each.length).toLowerCase() === each.toLowerCase());
  if (!found) return text;
  const [scheme, spelling, fields] = found;
  const rest = text.slice(scheme.length);
  if (!spelling || !fields) return scheme + rest;
  const broken: string[] = [];
  const respelled = rest.replace(fields, (field) => {
    // An expression that may match nothing also does so at the end.
    const base64 = field === '' ? '' : respell(field, spelling);
    if (base64 === null) broken.push(field);
    return base64 ?? field;
  });
  return broken.length === 0 ? scheme + respelled : null;
}

/**
 * @param base64 in the standard alphabet, in that for URLs, or in the format's own.
 * @returns null if it mixes them, or ends within a byte as what was cut off does.
 */
function respell(base64: string, { isPadded, plus }: Spelling): string | null {
  const digits = base64.replace(/(?<!=)={1,2}$/, '');
  const alphabets = [/^[A-Za-z0-9+/]+$/, /^[A-Za-z0-9_-]+$/, ...(plus === '.' ? [/^[A-Za-z0-9./]+$/] : [])];
  if (!alphabets.some((alphabet) => alphabet.test(digits))) return null;
  const standard = digits.replaceAll('-', '+').replaceAll('_', '/').replaceAll('.', '+');
  const padded = Buffer.from(standard, 'base64').toString('base64');
  const bare = padded.replace(/=+$/, '');
  return bare === standard ? (isPadded ? padded : bare).replaceAll('+', plus) : null;
}

/** What Spring's `PasswordEncoderFactories` writes, but for bcrypt and argon2. */
const SPRING = /^\{(pbkdf2|scrypt)(?:@SpringSecurity_v5_8)?\}(.*)$/i;

function fromSpring(encoder: string, encoded: string): string | null {
  return encoder === 'scrypt' ? fromSpringScrypt(encoded) : fromSpringPbkdf2(encoded);
}

/** The first part holds the logarithm of N, then r and p in a byte each. */
function fromSpringScrypt(encoded: string): string | null {
  const parts = /^\$([0-9a-f]{5,6})\$([^$]+)\$([^$]+)$/.exec(encoded);
  if (!parts) return null;
  const [, parameters = '', salt = '', key = ''] = parts;
  const value = parseInt(parameters, 16);
  return spelled(`$scrypt$ln=${value >> 16},r=${(value >> 8) & 0xff},p=${value & 0xff}$${salt}$${key}`);
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
const ASP_NET = /^AQAAAA[A-Za-z0-9+/_-]+={0,2}$/;

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
  return typeof value === 'string' ? respell(value, BARE) : null;
}

function dotted(base64: string): string {
  return base64.replaceAll('+', '.');
}
