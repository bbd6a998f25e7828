import { open, rm } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AuthError } from '../domain/errors.ts';
import { CommandError, type Invocation } from './command.ts';

/**
 * Writes accounts, with their password hashes, as fast as the output takes them.
 * @param path of a new file; undefined for standard output.
 * @throws AuthError `unavailable`, CommandError
 */
export async function writeLines(
  lines: AsyncIterable<string>,
  path: string | undefined,
  stopped: Invocation['stopped'],
): Promise<void> {
  if (path === undefined) await write(lines, process.stdout, 'standard output');
  else await writeFile(lines, path, stopped());
}

/** Only its owner may read it. It never replaces a file, whose mode would stay. @throws CommandError */
async function writeFile(lines: AsyncIterable<string>, path: string, signal: AbortSignal): Promise<void> {
  const file = await open(path, 'wx', 0o600).catch((error: unknown) => {
    throw new CommandError(
      `${path} cannot be created (${(error as NodeJS.ErrnoException).code ?? 'unknown'})`,
    );
  });
  try {
    await write(lines, file.createWriteStream(), path, signal);
  } catch (error) {
    // A part of the accounts would look like all of them.
    await rm(path, { force: true });
    throw error;
  }
}

/** @throws AuthError `unavailable`, CommandError */
async function write(
  lines: AsyncIterable<string>,
  output: Writable,
  name: string,
  signal?: AbortSignal,
): Promise<void> {
  try {
    await pipeline(Readable.from(lines, { objectMode: true, highWaterMark: 1 }), output, {
      end: output !== process.stdout,
      ...(signal && { signal }),
    });
  } catch (error) {
    if (signal?.aborted) throw new CommandError('stopped before the end; the file is removed');
    const { code } = error as NodeJS.ErrnoException;
    if (error instanceof AuthError || !/^E[A-Z]+$/.test(code ?? '')) throw error;
    throw new CommandError(`${name} cannot be written (${code})`);
  }
}
