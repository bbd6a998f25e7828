import { closeSync, fstatSync, ftruncateSync, openSync, readSync } from 'node:fs';

const NEWLINE = 0x0a;

/**
 * Removes the part of a line that a full disk took, so that a trail holds whole lines only. Other processes append to
 * the same file: if one has written since, its line stays, and so does the part.
 * @param taken the bytes that the disk took.
 * @returns false if the part is still there.
 */
export function removeFragment(path: string, taken: Uint8Array): boolean {
  const fragment = taken.subarray(taken.lastIndexOf(NEWLINE) + 1);
  if (fragment.length === 0) return true;
  let file: number | undefined;
  try {
    file = openSync(path, 'r+');
    const end = Buffer.alloc(fragment.length);
    const start = fstatSync(file).size - end.length;
    if (start < 0 || readSync(file, end, 0, end.length, start) < end.length || !end.equals(fragment))
      return false;
    ftruncateSync(file, start);
    return true;
  } catch {
    return false;
  } finally {
    if (file !== undefined) closeSync(file);
  }
}
