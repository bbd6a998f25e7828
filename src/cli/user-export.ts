import { open, rm } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { AuthError } from '../domain/errors.ts';
import { hashAsText } from '../infra/crypto/new-stored-hash.ts';
import { pageToExport, type ExportedAccount } from '../infra/postgres/account-store.ts';
import { CommandError, type Command, type Facts } from './command.ts';
import { withPostgres } from './database.ts';

/** Accounts per query. */
const PAGE = 500;

/** `latchkey user export [FILE]`: what `user import` reads. */
export const exportUsers: Command = ({ env, words: [path], note, stopped }) =>
  withPostgres(env, async ({ prisma }) => {
    const counts = { exported: 0 };
    const lines = exportLines(prisma, counts, note);
    if (path === undefined) await write(lines, process.stdout, 'standard output');
    else await writeFile(lines, path, stopped());
    return {
      result: { ...counts },
      text: `exported ${counts.exported} accounts, with their password hashes and e-mail addresses`,
      hasOutput: path === undefined,
      audited: { ...counts },
    };
  });

/** One page at a time, as fast as it is written. */
async function* exportLines(
  prisma: PrismaClient,
  counts: { exported: number },
  note: (facts: Facts) => void,
): AsyncGenerator<string> {
  for (let after = 0; ;) {
    const page = await pageToExport(prisma, after, PAGE);
    if (page.length === 0) return;
    yield page.map((user) => `${JSON.stringify(lineOf(user))}\n`).join('');
    counts.exported += page.length;
    note({ ...counts });
    after = page.at(-1)?.id ?? after;
  }
}

function lineOf({ id: _, passwordHash, externalId, createdAt, emailVerified, ...columns }: ExportedAccount) {
  return {
    ...columns,
    // An import of 1.0.0 refuses the field, so accounts without one do not have it.
    ...(externalId !== null && { external_id: externalId }),
    password_hash: hashAsText(passwordHash),
    created_at: new Date(createdAt).toISOString(),
    email_verified: emailVerified,
  };
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
