import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import hashWasm from 'hash-wasm';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';

/** A line to import. */
export interface UserLine {
  username: string;
  name: string;
  email: string;
  password_hash: unknown;
  [field: string]: unknown;
}

export const IMPORTED_PASSWORD = 'correct horse battery staple';

/** The bytes of this password's SHA-1 are the text of the other one. */
export const LONG_TWIN = 'plnlrtfpijpuhqylxbgqiiyipieyxvfsavzgxbbcfusqkozwpngsyejqlmjsytrmd';
export const SHORT_TWIN = "eBkXQTfuBqp'cTcar&g*";

const SALT = Buffer.from('0123456789abcdef');

/** Cheap hashes of a password, by the library that also verifies them; imported-hashes.test.ts has those of others. */
export async function cheapHashes(password = IMPORTED_PASSWORD): Promise<{ bcrypt: string; argon2: string }> {
  return {
    bcrypt: await hashWasm.bcrypt({ password, salt: SALT, costFactor: 4, outputType: 'encoded' }),
    argon2: await hashWasm.argon2id({
      password,
      salt: SALT,
      memorySize: 256,
      iterations: 1,
      parallelism: 1,
      hashLength: 32,
      outputType: 'encoded',
    }),
  };
}

/** @returns the path of a file with these lines, in a folder that the test removes. */
export function usersFile(
  t: Test,
  lines: readonly (UserLine | string | Buffer)[],
  name = 'users.jsonl',
): string {
  const path = join(testFolder(t), name);
  const parts = lines.map((line) =>
    Buffer.isBuffer(line) ? line : Buffer.from(typeof line === 'string' ? line : JSON.stringify(line)),
  );
  writeFileSync(path, Buffer.concat(parts.flatMap((part) => [part, Buffer.from('\n')])));
  return path;
}
