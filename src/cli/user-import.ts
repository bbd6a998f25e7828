import { createHash, randomBytes } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { makeReadLine, type ParsedLine } from '../domain/users/import-line.ts';
import type { SecretBox } from '../domain/factors/ports.ts';
import { toBase32 } from '../domain/factors/totp.ts';
import { makeReadTotpSecret } from '../infra/crypto/factor-keys.ts';
import type { NameHash } from '../infra/crypto/name-hash.ts';
import { makeReadHash } from '../infra/crypto/new-stored-hash.ts';
import {
  beginImport,
  finishImport,
  importBatch,
  refusedBetween,
  type ImportBatch,
  type ImportProgress,
  type RefusedLine,
} from '../infra/postgres/user-imports.ts';
import { accountSettings, nameHashing, openSecrets, reservedHashes } from './account-settings.ts';
import { CommandError, type Command, type Facts } from './command.ts';
import { withPostgres } from './database.ts';
import { chunksOf, withFile } from './input-file.ts';
import { isBlank, LONGEST_LINE, readLines, type Line } from './lines.ts';

/** Lines per transaction. A signup with a name of one of them waits for it: some 50 ms. */
const BATCH = 500;

interface Counts {
  imported: number;
  refused: number;
  skipped: number;
}

interface Import {
  prisma: PrismaClient;
  /** SHA-256 of the file when the command began. */
  fileHash: Buffer;
  /** Bytes. */
  size: number;
  readLine: (line: Uint8Array) => ParsedLine;
  reserved: NameHash;
  secrets: Pick<SecretBox, 'seal'>;
  counts: Counts;
  note: (facts: Facts) => void;
  bar: ProgressBar;
  json: boolean;
}

/** `latchkey user import FILE`; `-` is standard input. */
export const importUsers: Command = async ({ env, words: [path = ''], values: { json }, note }) => {
  const { newNames, cost, hashMemory } = accountSettings(env);
  const secrets = openSecrets(env);
  const readLine = makeReadLine({
    newNames,
    readHash: makeReadHash(cost, hashMemory),
    readTotpSecret: makeReadTotpSecret(secrets),
    randomUsername,
    now: Date.now,
  });
  const hashing = nameHashing(env);
  const counts: Counts = { imported: 0, refused: 0, skipped: 0 };
  await withFile(path, async (file) => {
    const { size } = await file.stat();
    const fileHash = await hashOf(file);
    await withPostgres(env, async ({ prisma }) => {
      const reserved = await reservedHashes(prisma, hashing);
      const bar = makeProgressBar(!json);
      const begun: Import = { prisma, fileHash, size, readLine, reserved, secrets, counts, note, bar, json };
      try {
        await importFile(begun, file, await beginImport(prisma, fileHash));
      } finally {
        bar.clear();
      }
    });
  });
  const { imported, refused, skipped } = counts;
  return {
    result: counts,
    text: `imported ${imported}, refused ${refused}, skipped ${skipped}`,
    audited: { ...counts },
    isWell: refused === 0,
  };
};

/** 60 bits: two of a million such names are equal in one of two million imports. */
function randomUsername(): string {
  return `user-${toBase32(randomBytes(8)).slice(0, 12).toLowerCase()}`;
}

async function hashOf(file: FileHandle): Promise<Buffer> {
  const hash = createHash('sha256');
  for await (const chunk of chunksOf(file)) hash.update(chunk);
  return hash.digest();
}

async function importFile(begun: Import, file: FileHandle, progress: ImportProgress): Promise<void> {
  const { lines, other } = progress;
  if (other)
    say(
      begun,
      `the last import stopped after line ${other.lines} at ${other.at.toISOString()}. This file has other content, ` +
        'so it is read from line 1, and names that were imported then are refused',
    );
  const seen = createHash('sha256');
  let read = 0;
  let done = lines;
  for await (const batch of inBatches(readLines(counted()), BATCH)) {
    done = await handleBatch(begun, batch, done);
    const { imported, refused, skipped } = begun.counts;
    begun.note({ ...begun.counts });
    begun.bar.show(read / begun.size, `${imported} imported, ${refused} refused, ${skipped} skipped`);
  }
  if (!seen.digest().equals(begun.fileHash))
    throw new CommandError(
      'the file has changed while it was imported: write it as a whole first, then import it again',
      begun.counts,
    );
  await finishImport(begun.prisma, begun.fileHash);

  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunksOf(file)) {
      seen.update(chunk);
      read += chunk.length;
      yield chunk;
    }
  }
}

/** @returns lists of consecutive lines. */
async function* inBatches(lines: AsyncIterable<Line>, size: number): AsyncGenerator<Line[]> {
  let batch: Line[] = [];
  for await (const line of lines) {
    batch.push(line);
    if (batch.length < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** @returns up to which line every line is done. @throws CommandError if another process imports the file. */
async function handleBatch(begun: Import, lines: Line[], done: number): Promise<number> {
  const { counts } = begun;
  const first = lines[0]?.number ?? 0;
  const last = lines.at(-1)?.number ?? 0;
  const again =
    first <= done ? await refusedBetween(begun.prisma, begun.fileHash, [first, last]) : new Set<number>();
  const filled = lines.filter((line) => !isBlank(line));
  const todo = filled.filter(({ number }) => number > done || again.has(number));
  counts.skipped += filled.length - todo.length;
  if (todo.length === 0 && last <= done) return done;

  const batch: ImportBatch = { doneBefore: done, last, users: [], refused: [] };
  for (const line of todo) sort(begun, line, batch);
  const refused = await importBatch(begun.prisma, begun.fileHash, batch, begun.reserved, begun.secrets);
  if (!refused) throw new CommandError('another process imports the same file', counts);
  counts.imported += todo.length - refused.length;
  counts.refused += refused.length;
  for (const line of refused) report(begun, line);
  return Math.max(done, last);
}

function sort({ readLine }: Import, { number: line, bytes }: Line, batch: ImportBatch): void {
  const parsed: ParsedLine =
    bytes === null ? { ok: false, problem: `is longer than ${LONGEST_LINE} bytes` } : readLine(bytes);
  if (parsed.ok) batch.users.push({ line, user: parsed.user });
  else batch.refused.push({ line, problem: parsed.problem });
}

function report(begun: Import, { line, problem }: RefusedLine): void {
  begun.bar.clear();
  process.stderr.write(
    begun.json ? `${JSON.stringify({ line, error: problem })}\n` : `line ${line}: ${problem}\n`,
  );
}

function say({ json }: Import, text: string): void {
  process.stderr.write(`${json ? JSON.stringify({ warning: text }) : text}\n`);
}

/** Characters between the brackets. */
const WIDTH = 30;

interface Output {
  isTTY?: boolean;
  write(text: string): unknown;
}

/** A line on a terminal that shows how far the work has got; silent elsewhere. */
interface ProgressBar {
  /** @param part of the work that is done, 0 to 1. */
  show(part: number, text: string): void;
  /** Removes it, before other text or at the end. */
  clear(): void;
}

export function makeProgressBar(isWanted: boolean, output: Output = process.stderr): ProgressBar {
  const isShown = isWanted && output.isTTY === true;
  const write = (text: string) => {
    if (isShown) output.write(`\r\x1b[K${text}`);
  };
  return {
    show(part, text) {
      const filled = Math.round(Math.min(part, 1) * WIDTH);
      const percent = Math.floor(Math.min(part, 1) * 100);
      write(`[${'#'.repeat(filled).padEnd(WIDTH, '-')}] ${percent} %  ${text}`);
    },
    clear() {
      write('');
    },
  };
}
