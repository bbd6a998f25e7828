import { createHmac, timingSafeEqual } from 'node:crypto';
import { refuse, type Parsed } from '../identifiers.ts';

// RFC 6238 with the values that every authenticator app takes: SHA-1, 6 digits, 30 seconds.

/** Bytes: RFC 4226, section 4, recommends 160 bits. */
export const SECRET_BYTES = 20;
/** Milliseconds. */
const STEP = 30_000;
const DIGITS = 6;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** The code of a time step: RFC 4226, section 5.3. */
export function codeOf(secret: Uint8Array, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac('sha1', secret).update(counter).digest();
  const truncated = mac.readUInt32BE((mac.at(-1) ?? 0) & 0xf) & 0x7f_ff_ff_ff;
  return String(truncated % 10 ** DIGITS).padStart(DIGITS, '0');
}

/**
 * The step of a code, which may be one early or late. Compares all three in constant time.
 * @param now milliseconds since 1970.
 * @returns the latest of the steps with this code; null if none has it.
 */
export function stepOf(secret: Uint8Array, code: string, now: number): number | null {
  const current = Math.floor(now / STEP);
  const given = Buffer.from(code);
  const matching = [current - 1, current, current + 1].filter((step) => {
    const right = Buffer.from(codeOf(secret, step));
    return timingSafeEqual(right, given.length === right.length ? given : Buffer.alloc(DIGITS));
  });
  return matching.at(-1) ?? null;
}

/** White space, dashes (and the minus sign), and what has no shape: controls, marks of direction, joiners, selectors. */
const SEPARATORS = /[\p{White_Space}\p{Pd}\u2212\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;
const DECIMAL = /^\p{Nd}$/u;

/** Room for any way to write a code of either kind. */
const LONGEST_CODE = 128;

/**
 * A code as its owner types or copies it: separators and the script of its digits do not count.
 * @returns null if it is longer than anybody writes one.
 */
export function plainCode(text: string): string | null {
  if (text.length > LONGEST_CODE) return null;
  return text.replace(SEPARATORS, '').replace(/\p{Nd}/gu, (digit) => String(valueOf(digit)));
}

/** Unicode encodes the decimal digits of each script in a row, zero first, and some rows follow each other. */
function valueOf(digit: string): number {
  const point = digit.codePointAt(0) ?? 0;
  let before = point - 1;
  while (DECIMAL.test(String.fromCodePoint(before))) before--;
  return (point - before - 1) % 10;
}

/** Reads the code of an app. */
export function readCode(text: string): Parsed {
  const code = plainCode(text);
  // Stryker disable next-line ConditionalExpression: the test reads null as a word, which is no code either
  return code !== null && /^\d{6}$/.test(code)
    ? { ok: true, value: code }
    : refuse({ code: 'format', message: `must be the ${DIGITS} digits that the app shows` });
}

/** RFC 4648, section 6, without padding: what apps show and take. */
export function toBase32(bytes: Uint8Array): string {
  let bits = '';
  for (const byte of bytes) bits += byte.toString(2).padStart(8, '0');
  return bits.replace(/.{1,5}/g, (group) => ALPHABET.charAt(Number.parseInt(group.padEnd(5, '0'), 2)));
}

/** Reads base32 as people copy it: case, spaces, hyphens and padding do not count. @returns null for anything else. */
export function fromBase32(text: string): Buffer | null {
  // Looking behind keeps the time linear: a run of padding is tried from its start alone.
  const plain = text.toUpperCase().replace(/[ -]|(?<!=)=+$/g, '');
  const digits = Array.from(plain, (digit) => ALPHABET.indexOf(digit));
  // A last digit without a bit of a byte is a mistake.
  if (digits.includes(-1) || (digits.length * 5) % 8 >= 5) return null;
  const bits = digits.map((digit) => digit.toString(2).padStart(5, '0')).join('');
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}

/**
 * What an authenticator app reads from a QR code, in the Key URI format. It separates the two parts of the label by a
 * colon, so neither may hold one.
 * @param issuer FACTOR_ISSUER, which apps show beside the codes.
 */
export function otpauthUri(secret: Uint8Array, issuer: string, username: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(username.replaceAll(':', '.'))}`;
  const query = `secret=${toBase32(secret)}&issuer=${encodeURIComponent(issuer)}`;
  return `otpauth://totp/${label}?${query}&algorithm=SHA1&digits=${DIGITS}&period=${STEP / 1000}`;
}
