import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { SigningKey } from '../../domain/access-tokens/ports.ts';
import { KeyError, parseSigningKey } from './keys.ts';

export interface KeyFile {
  /** File name in the folder. */
  name: string;
  key: SigningKey;
}

/** The names of the key files in a folder, the highest first. */
export function pemNames(directory: string): string[] {
  // Compare without the extension, or 2026-11-21-b.pem would sort below 2026-11-21.pem.
  const stem = (name: string) => name.slice(0, -'.pem'.length);
  return readdirSync(directory)
    .filter((name) => name.endsWith('.pem'))
    .sort((one, other) => (stem(one) > stem(other) ? -1 : 1));
}

/** The keys of a folder, the highest file name first. @throws KeyError */
export function readKeyFiles(directory: string): KeyFile[] {
  const { files, problems } = readFolder(directory, []);
  if (problems[0]) throw problems[0];
  return files;
}

/**
 * Reads the folder again while it is in use. If a file is unreadable, its key from the previous read stays, because
 * tokens of that key are in use, and the other files are not affected.
 * @throws KeyError if the folder itself cannot be read.
 */
export function readFolder(
  directory: string,
  before: readonly KeyFile[],
): { files: KeyFile[]; problems: KeyError[] } {
  const problems: KeyError[] = [];
  const files = orKeyError(directory, () => pemNames(directory)).flatMap((name) => {
    try {
      return [readKeyFile(directory, name)];
    } catch (error) {
      problems.push(error as KeyError);
      return before.filter((file) => file.name === name);
    }
  });
  return { files, problems };
}

function readKeyFile(directory: string, name: string): KeyFile {
  const path = join(directory, name);
  const [pem, { mtimeMs }] = orKeyError(name, () => [readFileSync(path, 'utf8'), statSync(path)] as const);
  return { name, key: parseSigningKey(pem, name, mtimeMs) };
}

function orKeyError<Result>(what: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    throw new KeyError(`${what} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`);
  }
}

/** The signing keys of a folder, the highest file name first. @throws KeyError */
export function readSigningKeys(directory: string): SigningKey[] {
  return keysOf(readKeyFiles(directory));
}

/** Removes duplicates: while a key is being renamed, it has two names. @throws KeyError if there is no key. */
export function keysOf(files: readonly KeyFile[]): SigningKey[] {
  if (files.length === 0) throw new KeyError('the folder holds no .pem file');
  const keys = files.map(({ key }) => key);
  return keys.filter(({ kid }, i) => keys.findIndex((key) => key.kid === kid) === i);
}

/**
 * The file name of the next key: its date, `2026-11-21`, then `2026-11-21-b`. Always higher than `names`.
 * @param names the highest first. @param date ms since 1970.
 */
export function nextName(names: readonly string[], date: number): string {
  const today = new Date(date).toISOString().slice(0, 10);
  const highest = names[0]?.slice(0, -'.pem'.length) ?? '';
  if (today > highest) return `${today}.pem`;
  const [, stem = highest, letter = 'a'] = /^(.*)-([b-y])$/.exec(highest) ?? [];
  return `${stem}-${String.fromCharCode(letter.charCodeAt(0) + 1)}.pem`;
}
