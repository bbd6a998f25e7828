import { createCipheriv, createHash, createHmac, pbkdf2Sync, scryptSync } from 'node:crypto';
import hashWasm from 'hash-wasm';

const salt = Buffer.from('0123456789abcdef');
const bare = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64').replace(/=+$/, '');
const dotted = (bytes: Uint8Array) => bare(bytes).replaceAll('+', '.');
const b64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64');
const scrypt = (text: string, salted: Uint8Array, keyLength = 32) =>
  scryptSync(text, salted, keyLength, { N: 16, r: 8, p: 1 });

const argon2 = (variant: 'argon2id' | 'argon2i' | 'argon2d') => (password: string) =>
  hashWasm[variant]({
    password,
    salt,
    memorySize: 8,
    iterations: 1,
    parallelism: 1,
    hashLength: 32,
    outputType: 'encoded',
  });

const bcrypt = (variant: string) => async (password: string) => {
  const hash = await hashWasm.bcrypt({ password, salt, costFactor: 4, outputType: 'encoded' });
  return hash.replace('$2a$', variant);
};

const PHPASS64 = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

const phpass = (prefix: string) => (text: string) => {
  const digest = (first: string | Buffer) => createHash('md5').update(first).update(text).digest();
  let key = digest('saltsalt');
  for (let round = 0; round < 2 ** 7; round++) key = digest(key);
  const groups = Array.from({ length: 6 }, (_, at) => key.subarray(3 * at, 3 * at + 3));
  const encoded = groups.map((bytes) => {
    const value = bytes.reduce((sum, byte, at) => sum | (byte << (8 * at)), 0);
    return Array.from({ length: bytes.length + 1 }, (_, at) =>
      PHPASS64.charAt((value >> (6 * at)) & 63),
    ).join('');
  });
  return `${prefix}${PHPASS64.charAt(7)}saltsalt${encoded.join('')}`;
};

const passlib = (prefix: string, digest: string, length: number) => (text: string) =>
  `${prefix}1$${dotted(salt)}$${dotted(pbkdf2Sync(text, salt, 1, length, digest))}`;

const ssha = (scheme: string, digest: string) => (text: string) =>
  `${scheme}${b64(Buffer.concat([createHash(digest).update(text).update(salt).digest(), salt]))}`;

/** A hash at the lowest cost in each format of `FORMATS`, and each variant of it, by how it begins. */
export const CHEAP: Readonly<Record<string, (text: string) => string | Promise<string>>> = {
  $argon2id$: argon2('argon2id'),
  $argon2i$: argon2('argon2i'),
  $argon2d$: argon2('argon2d'),
  argon2$argon2id$: async (text) => `argon2${await argon2('argon2id')(text)}`,
  '$scrypt$ln=': (text) => `$scrypt$ln=4,r=8,p=1$${bare(salt)}$${bare(scrypt(text, salt))}`,
  $2a$: bcrypt('$2a$'),
  $2b$: bcrypt('$2b$'),
  $2y$: bcrypt('$2y$'),
  bcrypt_sha256$$2b$: async (text) =>
    `bcrypt_sha256$${await bcrypt('$2b$')(createHash('sha256').update(text).digest('hex'))}`,
  $wp$2y$: async (text) =>
    `$wp${await bcrypt('$2y$')(createHmac('sha384', 'wp-sha384').update(text).digest('base64'))}`,
  $pbkdf2$: passlib('$pbkdf2$', 'sha1', 20),
  '$pbkdf2-sha256$': passlib('$pbkdf2-sha256$', 'sha256', 32),
  '$pbkdf2-sha512$': passlib('$pbkdf2-sha512$', 'sha512', 64),
  pbkdf2_sha256$: (text) => `pbkdf2_sha256$1$salt$${b64(pbkdf2Sync(text, 'salt', 1, 32, 'sha256'))}`,
  scrypt$: (text) => `scrypt$16$salt$8$1$${b64(scrypt(text, Buffer.from('salt'), 64))}`,
  $P$: phpass('$P$'),
  $H$: phpass('$H$'),
  '{SSHA}': ssha('{SSHA}', 'sha1'),
  '{SSHA256}': ssha('{SSHA256}', 'sha256'),
  '{SSHA512}': ssha('{SSHA512}', 'sha512'),
  $fbscrypt$: (text) => {
    const [separator, signerKey] = [Buffer.from([7]), Buffer.alloc(64, 0xfb)];
    const key = scrypt(text, Buffer.concat([salt, separator]));
    const hash = createCipheriv('aes-256-ctr', key, Buffer.alloc(16)).update(signerKey);
    return `$fbscrypt$v=1,n=4,r=8,p=1,ss=${b64(separator)},sk=${b64(signerKey)}$${b64(salt)}$${b64(hash)}`;
  },
};
