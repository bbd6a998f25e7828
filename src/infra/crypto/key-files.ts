import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { SigningKey } from '../../domain/access-tokens/ports.ts';
import { KeyError, parseSigningKey } from './keys.ts';

export interface KeyFile {
  /** Its name in the folder. */
  name: string;
  key: SigningKey;
}

/** The names of the keys in a folder, the highest first. */
export function pemNames(directory: string): string[] {
  // Without the ending, or 2026-11-21-b.pem would come before 2026-11-21.pem.
  const stem = (name: string) => name.slice(0, -'.pem'.length);
  return readdirSync(directory)
    .filter((name) => name.endsWith('.pem'))
    .sort((one, other) => (stem(one) > stem(other) ? -1 : 1));
}

/** The keys of a folder, the highest file name first. @throws KeyError, and the file system's errors */
export function readKeyFiles(directory: string): KeyFile[] {
  return pemNames(directory).map((name) => {
    const path = join(directory, name);
    return { name, key: parseSigningKey(readFileSync(path, 'utf8'), name, statSync(path).mtimeMs) };
  });
}

/**
 * The keys of a folder that serves, the highest file name first.
 * @throws KeyError, and the file system's errors
 */
export function readSigningKeys(directory: string): SigningKey[] {
  const files = readKeyFiles(directory);
  if (files.length === 0) throw new KeyError('the folder holds no .pem file');
  // The same key may be there under two names, while it is renamed.
  const keys = files.map(({ key }) => key);
  return keys.filter(({ kid }, i) => keys.findIndex((key) => key.kid === kid) === i);
}

/**
 * The name of a key that is to follow these: by its date, `2026-11-21`, then `2026-11-21-b`, and always the highest.
 * @param names the highest first. @param date ms since 1970.
 */
export function nextName(names: readonly string[], date: number): string {
  const today = new Date(date).toISOString().slice(0, 10);
  const highest = names[0]?.slice(0, -'.pem'.length) ?? '';
  if (today > highest) return `${today}.pem`;
  const [, stem = highest, letter = 'a'] = /^(.*)-([b-y])$/.exec(highest) ?? [];
  return `${stem}-${String.fromCharCode(letter.charCodeAt(0) + 1)}.pem`;
}
