import { randomUUID } from 'node:crypto';
import { unlinkSync } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CommandError } from './command.ts';

/** For a copy of standard input: a container with a read-only file system often has only the second, 64 MB. */
const COPY_FOLDERS = [tmpdir(), '/dev/shm'];

/** Bytes. */
const CHUNK = 64 * 1024;

/** @throws CommandError if it cannot be read. */
export async function withFile(path: string, work: (file: FileHandle) => Promise<void>): Promise<void> {
  let file: FileHandle;
  try {
    file = await (path === '-' ? copyOfStdin() : open(path));
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw unreadable(path, (error as NodeJS.ErrnoException).code);
  }
  try {
    // It is read twice, so a pipe does not do.
    if (!(await file.stat()).isFile()) throw unreadable(path, 'not a regular file');
    await work(file);
  } finally {
    await file.close();
  }
}

function unreadable(path: string, reason = 'unknown'): CommandError {
  return new CommandError(`${path} cannot be read (${reason})`);
}

/** A copy of standard input. It has no name, so nothing is left of it, however the command ends. @throws CommandError */
async function copyOfStdin(): Promise<FileHandle> {
  let code = 'unknown';
  for (const folder of COPY_FOLDERS) {
    let file: FileHandle | undefined;
    try {
      const path = join(folder, `latchkey-import-${randomUUID()}`);
      file = await open(path, 'wx+', 0o600);
      unlinkSync(path);
    } catch (error) {
      code = (error as NodeJS.ErrnoException).code ?? code;
      continue;
    }
    try {
      for await (const chunk of process.stdin) await file.appendFile(chunk as Buffer);
      return file;
    } catch (error) {
      await file.close();
      code = (error as NodeJS.ErrnoException).code ?? code;
      break;
    }
  }
  throw new CommandError(
    `standard input cannot be copied to a temporary file (${code}): set TMPDIR to a folder with space for it`,
  );
}

/** Unlike a stream, it leaves the file open when its reader stops early. @param end bytes, at least. */
export async function* chunksOf(file: FileHandle, end = Infinity): AsyncGenerator<Buffer> {
  for (let position = 0; position < end;) {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(CHUNK), 0, CHUNK, position);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
    position += bytesRead;
  }
}
