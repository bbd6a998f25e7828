import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { HashCost } from '../../domain/passwords/ports.ts';
import {
  phpassTexts,
  phpBBTexts,
  plainOrPhpTexts,
  plainTexts,
  wordPressTexts,
  type Texts,
} from './hashed-texts.ts';
import { hashMemory, isScryptCost } from './scrypt-hasher.ts';

/** What a password hash of another system was computed with. */
export type Recipe =
  | { kind: 'argon2'; variant: Argon2; memory: number; passes: number; lanes: number; salt: Uint8Array }
  | { kind: 'bcrypt'; input: BcryptInput; rounds: number; salt: Uint8Array }
  | { kind: 'pbkdf2'; digest: Digest; iterations: number; salt: Uint8Array }
  /** Firebase encrypts its project's signer key with what scrypt makes of the password. */
  | { kind: 'scrypt'; logN: number; r: number; p: number; salt: Uint8Array; signerKey?: Uint8Array }
  /** Of 2^rounds MD5s. The salt is text. */
  | { kind: 'phpass'; rounds: number; salt: Uint8Array }
  /** One digest of password and salt. */
  | { kind: 'salted'; digest: Digest; salt: Uint8Array };

/** What bcrypt gets: the password, its SHA-256 in hexadecimal (Django), or WordPress's HMAC in base64. */
export type BcryptInput = 'password' | 'sha256' | 'wordpress';

export type Argon2 = 'argon2id' | 'argon2i' | 'argon2d';
export type Digest = 'sha1' | 'sha256' | 'sha512';

/** `key` is what the recipe makes of the password, or of what the other system made of it. */
type Computed = Recipe & { key: Uint8Array };

/** A password hash of another system. */
export type ForeignHash = Computed & { texts: Texts };

const DIGEST_BYTES: Readonly<Record<Digest, number>> = { sha1: 20, sha256: 32, sha512: 64 };

/** Bytes of a password that HMAC takes as they are (RFC 2104, section 2). */
const BLOCK_BYTES: Readonly<Record<Digest, number>> = { sha1: 64, sha256: 64, sha512: 128 };

/** bcrypt reads no more bytes of a password, and neither does any system that stores its hashes. */
export const BCRYPT_LENGTH = 72;

const MIB = 1024 ** 2;

/** A shorter key would open for too many passwords. */
const SHORTEST_KEY = 16;
const LONGEST_KEY = 128;
const LONGEST_SALT = 1024;
/** Memory in KiB times passes of argon2: some four seconds, since `hashWasm.argon2id` with 100 MiB and 2 passes takes half a one. */
const MAX_ARGON2_WORK = 1.75 * 1024 ** 2;
/** Bytes times passes of scrypt. */
const MAX_SCRYPT_WORK = 1.25 * 1024 ** 3;
/** Some four seconds; each further round doubles them. */
const MAX_ROUNDS = 15;
/** Likewise, of phpass. */
const MAX_PHPASS_ROUNDS = 20;
/** Iterations times blocks of the key: some five seconds. */
const MAX_PBKDF2_WORK = 10_000_000;
const MAX_P = 16;

type Read = (parts: string[]) => Computed | null;

const BASE64 = '[A-Za-z0-9+/]+';
/** With `.` for `+`: passlib's. */
const DOTTED = '[A-Za-z0-9./]+';
/** Django's salts are text. */
const TEXT = '[!-#%-~]+';
const NUMBER = '[1-9]\\d{0,9}';
const PADDED = `${BASE64}={0,2}`;
const BCRYPT = '\\$2[aby]\\$(\\d\\d)\\$([./A-Za-z0-9]{22})([./A-Za-z0-9]{31})';

const ARGON2 = `\\$(argon2id|argon2i|argon2d)\\$v=19\\$m=(${NUMBER}),t=(${NUMBER}),p=(${NUMBER})\\$(${BASE64})\\$(${BASE64})`;

const readArgon2: Read = ([variant, memory, passes, lanes, salt = '', key = '']) => ({
  kind: 'argon2',
  variant: variant as Argon2,
  memory: Number(memory),
  passes: Number(passes),
  lanes: Number(lanes),
  salt: fromBase64(salt),
  key: fromBase64(key),
});

const readBcrypt =
  (input: BcryptInput): Read =>
  ([rounds, salt = '', key = '']) => ({
    kind: 'bcrypt',
    input,
    rounds: Number(rounds),
    salt: fromBcrypt64(salt),
    key: fromBcrypt64(key),
  });

/** phpass's portable hashes. */
const PHPASS = '\\$([./A-Za-z0-9])([./A-Za-z0-9]{8})([./A-Za-z0-9]{22})';

const readPhpass: Read = ([rounds = '', salt = '', key = '']) => ({
  kind: 'phpass',
  rounds: PHPASS64.indexOf(rounds),
  salt: Buffer.from(salt),
  key: fromPhpass64(key),
});

interface Format {
  /** What a whole hash looks like. */
  pattern: RegExp;
  read: Read;
  /** Of every system that writes this format, the usual one's first. */
  texts: Texts;
}

export const FORMATS: readonly Format[] = [
  // The PHC string format, as argon2's reference implementation and every library of it writes it.
  { pattern: whole(ARGON2), read: readArgon2, texts: plainOrPhpTexts },
  { pattern: whole(`argon2${ARGON2}`), read: readArgon2, texts: plainTexts },
  {
    pattern: whole(`\\$scrypt\\$ln=(${NUMBER}),r=(${NUMBER}),p=(${NUMBER})\\$(${BASE64})\\$(${BASE64})`),
    read: ([logN, r, p, salt = '', key = '']) => ({
      kind: 'scrypt',
      logN: Number(logN),
      r: Number(r),
      p: Number(p),
      salt: fromBase64(salt),
      key: fromBase64(key),
    }),
    texts: plainTexts,
  },
  { pattern: whole(BCRYPT), read: readBcrypt('password'), texts: plainOrPhpTexts },
  { pattern: whole(`bcrypt_sha256\\$${BCRYPT}`), read: readBcrypt('sha256'), texts: plainTexts },
  { pattern: whole(`\\$wp${BCRYPT}`), read: readBcrypt('wordpress'), texts: wordPressTexts },
  // passlib, without a suffix for SHA-1.
  {
    pattern: whole(`\\$pbkdf2(?:-(sha256|sha512))?\\$(${NUMBER})\\$(${DOTTED})\\$(${DOTTED})`),
    read: ([digest = 'sha1', iterations, salt = '', key = '']) => ({
      kind: 'pbkdf2',
      digest: digest as Digest,
      iterations: Number(iterations),
      salt: fromBase64(salt.replaceAll('.', '+')),
      key: fromBase64(key.replaceAll('.', '+')),
    }),
    texts: plainTexts,
  },
  {
    pattern: whole(`pbkdf2_sha256\\$(${NUMBER})\\$(${TEXT})\\$(${PADDED})`),
    read: ([iterations, salt = '', key = '']) => ({
      kind: 'pbkdf2',
      digest: 'sha256',
      iterations: Number(iterations),
      salt: Buffer.from(salt),
      key: fromBase64(key),
    }),
    texts: plainTexts,
  },
  {
    pattern: whole(`scrypt\\$(${NUMBER})\\$(${TEXT})\\$(${NUMBER})\\$(${NUMBER})\\$(${PADDED})`),
    read: ([n, salt = '', r, p, key = '']) => {
      const logN = Math.log2(Number(n));
      if (!Number.isInteger(logN)) return null;
      return {
        kind: 'scrypt',
        logN,
        r: Number(r),
        p: Number(p),
        salt: Buffer.from(salt),
        key: fromBase64(key),
      };
    },
    texts: plainTexts,
  },
  { pattern: whole(`\\$P${PHPASS}`), read: readPhpass, texts: phpassTexts },
  { pattern: whole(`\\$H${PHPASS}`), read: readPhpass, texts: phpBBTexts },
  // LDAP's userPassword.
  {
    pattern: whole(`\\{SSHA(256|512)?\\}(${PADDED})`),
    read: ([size = '1', text = '']) => {
      const digest = `sha${size}` as Digest;
      const bytes = fromBase64(text);
      const length = DIGEST_BYTES[digest];
      return { kind: 'salted', digest, salt: bytes.subarray(length), key: bytes.subarray(0, length) };
    },
    texts: plainTexts,
  },
  // Firebase's, in the text form of Supabase.
  {
    pattern: whole(
      `\\$fbscrypt\\$v=1,n=(${NUMBER}),r=(${NUMBER}),p=(${NUMBER})(?:,ss=(${PADDED}))?,sk=(${PADDED})\\$(${PADDED})\\$(${PADDED})`,
    ),
    read: ([logN, r, p, separator = '', signerKey = '', salt = '', key = '']) => ({
      kind: 'scrypt',
      logN: Number(logN),
      r: Number(r),
      p: Number(p),
      salt: Buffer.concat([fromBase64(salt), fromBase64(separator)]),
      signerKey: fromBase64(signerKey),
      key: fromBase64(key),
    }),
    texts: plainTexts,
  },
];

/** Longer than any hash within the limits for salt and key. */
export const LONGEST_TEXT = 2048;

/**
 * Reads a hash of another system, in one of the formats of docs/importing.md that `translateHash` makes or leaves.
 * @returns null if it has none of these formats, or a salt or key of an unusual length.
 */
export function parseForeignHash(text: string): ForeignHash | null {
  if (text.length > LONGEST_TEXT) return null;
  for (const { pattern, read, texts } of FORMATS) {
    const parts = pattern.exec(text);
    const hash = parts && read(parts.slice(1));
    if (hash) return hasUsualLengths(hash) ? { ...hash, texts } : null;
  }
  return null;
}

function hasUsualLengths(hash: Computed): boolean {
  const { kind, salt, key } = hash;
  const shortestSalt = kind === 'argon2' ? 8 : 1;
  // The key is as long as what was encrypted.
  if (kind === 'scrypt' && hash.signerKey && hash.signerKey.length !== key.length) return false;
  if (salt.length < shortestSalt || salt.length > LONGEST_SALT) return false;
  return key.length >= SHORTEST_KEY && key.length <= LONGEST_KEY;
}

/**
 * Each round of phpass digests the text again, so its time grows with the text. Other hashes digest it once.
 * @param length of the text, in bytes.
 */
export function phpassBlocks(length: number): number {
  const [stateBytes, paddingBytes, blockBytes] = [16, 9, 64];
  return Math.ceil((stateBytes + length + paddingBytes) / blockBytes);
}

/**
 * Blocks of the longest text that phpass gets for a password. Every failed login computes as many in each round, or its
 * time would tell a password of quotes at an account of WordPress from the same one elsewhere.
 */
export function mostPhpassBlocks(password: string): number {
  const texts = [password, ...phpassTexts(password), ...phpBBTexts(password)];
  return phpassBlocks(Math.max(...texts.map((text) => Buffer.byteLength(text))));
}

/** A thread takes 20 MiB besides: two of `imitate('bcrypt 12', 'x')` raise `VmHWM` from 45 to 85 MiB. */
const THREAD_MEMORY = 20 * MIB;

/** Memory of one computation, in bytes. */
export function memoryOfRecipe(recipe: Recipe): number {
  switch (recipe.kind) {
    case 'argon2':
      return recipe.memory * 1024 + THREAD_MEMORY;
    case 'bcrypt':
    case 'phpass':
      return THREAD_MEMORY;
    case 'scrypt':
      // The table, or the blocks if there are more of them.
      return Math.max(hashMemory(recipe), 128 * recipe.r * recipe.p);
    case 'pbkdf2':
    case 'salted':
      return 0;
  }
}

/**
 * Why a hash takes too much of the service: one login with it would hold a place of the bulkhead for that long.
 * @param maxMemory bytes.
 * @returns null if it is within the limits.
 */
export function limitProblem(hash: Computed, maxMemory: number): string | null {
  if (hash.kind === 'scrypt' && !isScryptCost(hash)) return 'has parameters that scrypt does not take';
  const memory = memoryOfRecipe(hash);
  if (memory > maxMemory)
    return `needs ${mib(memory)} MiB of memory for each login, and HASH_MEMORY allows ${Math.floor(maxMemory / MIB)} MiB`;
  return isSlow(hash) ? 'has a cost that would take a login many seconds' : null;
}

function isSlow(hash: Computed): boolean {
  switch (hash.kind) {
    case 'argon2':
      // Each lane needs 8 KiB.
      return hash.lanes > 64 || hash.memory < 8 * hash.lanes || hash.memory * hash.passes > MAX_ARGON2_WORK;
    case 'bcrypt':
      return hash.rounds < 4 || hash.rounds > MAX_ROUNDS;
    case 'phpass':
      return hash.rounds > MAX_PHPASS_ROUNDS;
    case 'salted':
      return false;
    case 'pbkdf2':
      return workOf(hash) > MAX_PBKDF2_WORK;
    case 'scrypt':
      return hash.p > MAX_P || hashMemory(hash) * hash.p > MAX_SCRYPT_WORK;
  }
}

/** PBKDF2 repeats its iterations for each block of the key. */
function workOf({ digest, iterations, key }: Extract<Computed, { kind: 'pbkdf2' }>): number {
  return iterations * Math.ceil(key.length / DIGEST_BYTES[digest]);
}

/** Hashes of equal cost take equal work. An scrypt hash takes what one of ours takes. */
export function costOfForeign(hash: ForeignHash): HashCost {
  switch (hash.kind) {
    case 'argon2':
      return `${hash.variant} ${hash.memory}/${hash.passes}/${hash.lanes}`;
    case 'bcrypt':
      return `bcrypt ${hash.rounds}`;
    case 'pbkdf2':
      return `pbkdf2-${hash.digest} ${workOf(hash)}`;
    case 'scrypt':
      return `scrypt ${hash.logN}/${hash.r}/${hash.p}`;
    case 'phpass':
      return `phpass ${hash.rounds}`;
    case 'salted':
      return `salted-${hash.digest} 1`;
  }
}

/**
 * Whether a hash that this password opens also opens for other passwords, which one of ours would refuse. Then it has to
 * stay, because the owner may use another of them next time (docs/adr/0009).
 * @param password as it was sent, in UTF-8.
 */
export function opensForOthers(recipe: Recipe, password: Uint8Array): boolean {
  switch (recipe.kind) {
    case 'bcrypt':
      // It repeats the password and a NUL until it has 72 bytes: the repetition is a password too.
      return recipe.input === 'password' && (password.length >= BCRYPT_LENGTH || password.includes(0));
    case 'pbkdf2':
      // HMAC takes the digest of a longer password for it. That is a password too if it is text.
      return (
        password.length > BLOCK_BYTES[recipe.digest] &&
        isUtf8(createHash(recipe.digest).update(password).digest())
      );
    // scrypt begins with HMAC-SHA-256, as ours does: ours opens for the same passwords. The others tell all apart.
    case 'scrypt':
    case 'argon2':
    case 'phpass':
    case 'salted':
      return false;
  }
}

function whole(pattern: string): RegExp {
  return new RegExp(`^${pattern}$`);
}

function fromBase64(text: string): Uint8Array {
  return Buffer.from(text, 'base64');
}

const BCRYPT64 = './ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const USUAL64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function fromBcrypt64(text: string): Uint8Array {
  return fromBase64(text.replace(/./g, (character) => USUAL64.charAt(BCRYPT64.indexOf(character))));
}

const PHPASS64 = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Four characters are three bytes, with the lowest bits first. */
function fromPhpass64(text: string): Uint8Array {
  const bytes = text.match(/.{2,4}/g)?.flatMap((group) => {
    const bits = Array.from(group, (character, at) => PHPASS64.indexOf(character) << (6 * at));
    const value = bits.reduce((sum, part) => sum | part, 0);
    return [value & 0xff, (value >> 8) & 0xff, (value >> 16) & 0xff].slice(0, group.length - 1);
  });
  return Buffer.from(bytes ?? []);
}

function mib(bytes: number): number {
  return Math.ceil(bytes / MIB);
}
