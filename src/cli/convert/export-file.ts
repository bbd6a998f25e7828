import { constants, isUtf8 } from 'node:buffer';
import type { FileHandle } from 'node:fs/promises';
import { heapLimit } from '../../runtime/memory.ts';
import { CommandError } from '../command.ts';
import { chunksOf } from '../input-file.ts';
import { isBlank, readLines, type Line } from '../lines.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** A list of objects, as a tool writes it: one JSON document, or a line of JSON for each. */
export interface ListForm {
  /** For a message that something else was given. */
  what: string;
  /** Where the list is in a document; null if the document is the list. */
  list: string | null;
  /** Whether the tool always writes lines. */
  isLines: boolean;
  /** How the tool writes smaller documents, or lines. */
  split: string;
  /** Whether an object has the fields that every account has. */
  isAccount(object: JsonObject): boolean;
}

/** An object of the list, or why there is none. */
export interface Entry {
  place: Place;
  object: JsonObject | null;
  /** If there is no object. */
  problem: string;
}

/** A line, from 1 on, or an index of the list, from 0 on. */
export interface Place {
  kind: 'line' | 'index';
  at: number;
}

const MIB = 1024 ** 2;

/** A document becomes one text, and V8 takes no longer one: some 512 MiB. */
const LONGEST_DOCUMENT = constants.MAX_STRING_LENGTH;

/**
 * Bytes of V8's heap for a byte of a document: its text, and what is parsed from it. A heap that is full ends the process
 * with a stack.
 */
const HEAP_FACTOR = 4;

/** A user's metadata may hold a picture. */
const LONGEST_ENTRY = 16 * 1024 * 1024;

const NOT_JSON = 'is not a JSON object';

/** The list in a file, which can be read several times. */
export interface OpenList {
  /** What stands around the list; no fields if it has lines, or is the document. */
  document: JsonObject;
  /** All entries, which may be no accounts. */
  all(): AsyncIterable<Entry> | Iterable<Entry>;
  /** Only accounts are objects. @throws CommandError if there is none. */
  accounts(): AsyncGenerator<Entry>;
}

/**
 * Opens the list in a file. Lines are read one at a time, a document as a whole.
 * @param name of the file, for messages. @param guess names the system that an object or document is of, if any.
 * @throws CommandError if the file holds no such list.
 */
export async function openList(
  file: FileHandle,
  name: string,
  form: ListForm,
  guess: (value: unknown) => string | null = () => null,
): Promise<OpenList> {
  await refuseOtherForms(file, name);
  const isOfLines = await holdsLines(file, form);
  const document = isOfLines ? null : await readDocument(file, name, form);
  const list = isOfLines ? null : listIn(document, form);
  if (!isOfLines && !list) throw notOf(name, form, guess(document));
  const all = () => (list ? entriesOfList(list) : entriesOfLines(file));

  return {
    document: fieldsOf(document),
    all,

    async *accounts() {
      let [count, accounts] = [0, 0];
      let first: unknown;
      for await (const entry of all()) {
        count++;
        first ??= entry.object;
        const isAccount = entry.object !== null && form.isAccount(entry.object);
        if (isAccount) accounts++;
        yield isAccount || entry.object === null
          ? entry
          : { ...entry, object: null, problem: 'lacks the fields of such an export' };
      }
      if (count === 0) throw empty(name, form);
      if (accounts === 0) throw notOf(name, form, guess(first));
    },
  };
}

function* entriesOfList(list: readonly unknown[]): Generator<Entry> {
  for (const [at, object] of list.entries())
    yield { place: { kind: 'index', at }, object: isObject(object) ? object : null, problem: NOT_JSON };
}

function empty(name: string, form: ListForm): CommandError {
  return new CommandError(`${name} holds no accounts: it should be ${form.what}`);
}

function notOf(name: string, form: ListForm, guessed: string | null): CommandError {
  const other = guessed === null ? '' : `, and looks like one of ${guessed}`;
  return new CommandError(`${name} is not ${form.what}${other}`);
}

/** @returns null if the document holds no list there. */
export function listIn(document: unknown, { list }: Pick<ListForm, 'list'>): unknown[] | null {
  const found = list === null ? document : isObject(document) ? document[list] : null;
  return Array.isArray(found) ? found : null;
}

/** RFC 1952. Auth0's exports come so. */
const GZIP = '1f8b';

/** PowerShell's `>` writes UTF-16, and has decoded the tool's output by another code page before. */
async function refuseOtherForms(file: FileHandle, name: string): Promise<void> {
  const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, 0);
  const start = buffer.toString('hex');
  if (start === GZIP) throw new CommandError(`${name} is compressed: unpack it first, as with gunzip`);
  if (bytesRead === 2 && (['fffe', 'feff'].includes(start) || buffer.includes(0)))
    throw new CommandError(
      `${name} is UTF-16, as PowerShell's > writes it, and letters may be lost in it: let the tool write the file ` +
        'itself, or run it in another shell',
    );
}

/**
 * Whether the first line is an object of its own, other than a document on one line. Where the tool always writes
 * lines, the second counts too, because the first may be damaged.
 */
async function holdsLines(file: FileHandle, form: ListForm): Promise<boolean> {
  let left = form.isLines ? 2 : 1;
  for await (const line of linesOf(file, left * LONGEST_ENTRY)) {
    if (isBlank(line)) continue;
    const object = line.bytes && objectOf(Buffer.from(line.bytes).toString());
    if (object) return form.list === null || listIn(object, form) === null;
    if (--left === 0) return false;
  }
  return false;
}

async function* entriesOfLines(file: FileHandle): AsyncGenerator<Entry> {
  for await (const line of linesOf(file)) {
    if (isBlank(line)) continue;
    const { number: at, bytes } = line;
    const text = bytes && isUtf8(bytes) ? Buffer.from(bytes).toString() : null;
    const problem = bytes === null ? `is longer than ${LONGEST_ENTRY} bytes` : NOT_JSON;
    yield { place: { kind: 'line', at }, object: text === null ? null : objectOf(text), problem };
  }
}

/** Without a byte order mark. */
async function* linesOf(file: FileHandle, end?: number): AsyncGenerator<Line> {
  for await (const { number, bytes } of readLines(chunksOf(file, end), LONGEST_ENTRY))
    yield { number, bytes: number === 1 && bytes ? withoutMark(bytes) : bytes };
}

const MARK = Buffer.from('\ufeff');

function withoutMark(bytes: Uint8Array): Uint8Array {
  return MARK.equals(bytes.subarray(0, MARK.length)) ? bytes.subarray(MARK.length) : bytes;
}

async function readDocument(file: FileHandle, name: string, form: ListForm): Promise<unknown> {
  const { size } = await file.stat();
  if (size > LONGEST_DOCUMENT)
    throw new CommandError(`${name} is larger than 512 MiB and has no line for each account: ${form.split}`);
  const needed = HEAP_FACTOR * size;
  if (needed > heapLimit())
    throw new CommandError(
      `${name} has no line for each account, and may need more memory than Node takes here: set ` +
        `NODE_OPTIONS=--max-old-space-size=${Math.ceil(needed / MIB)}, or ${form.split}`,
    );
  const text = await readUtf8(file, size);
  if (text === null) throw new CommandError(`${name} is not UTF-8: it should be ${form.what}`);
  if (text.trim() === '') throw empty(name, form);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // The parser's own message quotes the text.
    throw new CommandError(
      `${name} is not JSON: it may be cut off, or hold a warning of the tool. It should be ${form.what}`,
    );
  }
}

/**
 * In a function of its own, so that the bytes can go before their text is parsed.
 * @returns null if it is not UTF-8.
 */
async function readUtf8(file: FileHandle, size: number): Promise<string | null> {
  const bytes = Buffer.alloc(size);
  let length = 0;
  for await (const chunk of chunksOf(file, size)) length += chunk.copy(bytes, length);
  const read = withoutMark(bytes.subarray(0, length));
  return isUtf8(read) ? Buffer.from(read.buffer, read.byteOffset, read.length).toString() : null;
}

/** The whole of a small file. @throws CommandError */
export async function readText(file: FileHandle, name: string): Promise<string> {
  const most = 64 * 1024;
  const { buffer, bytesRead } = await file.read(Buffer.alloc(most + 1), 0, most + 1, 0);
  if (bytesRead > most) throw new CommandError(`${name} is longer than ${most} bytes`);
  return Buffer.from(withoutMark(buffer.subarray(0, bytesRead))).toString();
}

function objectOf(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** An object of which only fields are read; empty if it is none. */
export function fieldsOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

/** The objects of a list; none if it is no list. */
export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

/** The object in a JSON text, such as Keycloak's. */
export function parsedFields(value: unknown): JsonObject {
  return typeof value === 'string' ? (objectOf(value) ?? {}) : fieldsOf(value);
}
