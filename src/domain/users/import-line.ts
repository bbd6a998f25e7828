import { parseExternalId, refuse, type Parsed } from '../identifiers.ts';
import { parseRoles } from '../roles.ts';
import type { NewNames } from './new-names.ts';

/** What is stored for a password that another system hashed, or that we did. */
export interface NewHash {
  /** One of ours, or one that nothing opens in the place of the imported one. */
  passwordHash: Uint8Array;
  /** The text of another system's hash, with its cost. */
  imported?: { hash: string; cost: string };
}

/** An account to add, with its names in their canonical form. */
export interface ImportedUser {
  username: string;
  name: string;
  email: string;
  externalId: string | null;
  hash: NewHash;
  /** Milliseconds since 1970; null for now. */
  createdAt: number | null;
  roles: string[];
  disabled: boolean;
  emailVerified: boolean;
  /** Of an authenticator app that the user has; null for none. */
  totpSecret: Uint8Array | null;
}

export type ParsedLine = { ok: true; user: ImportedUser } | { ok: false; problem: string };

/** What a reader makes of a field; the message of a refusal follows the field's name. */
export type ReadField<Value> = { ok: true; value: Value } | { ok: false; message: string };

/**
 * Of every field: what a line calls it, and what reads it. A line that lacks the field gives `undefined`, and so does
 * `null`, which sources write for what they lack; only as a hash it says something, that there is no password. A reader
 * also gets what the fields before its own have become.
 */
type Readers = {
  [Field in keyof ImportedUser]: readonly [
    name: string,
    read: (raw: unknown, before: Partial<ImportedUser>) => ReadField<ImportedUser[Field]>,
  ];
};

interface LinePorts {
  newNames: NewNames;
  readHash: (value: unknown) => ReadField<NewHash>;
  readTotpSecret: (value: unknown) => ReadField<Uint8Array | null>;
  /** For a user whom the other system gave none. */
  randomUsername: () => string;
  /** Milliseconds since 1970. */
  now: () => number;
}

/** Reads a line of a file of users. Its problems name fields, and hold no value. */
export function makeReadLine({
  newNames,
  readHash,
  readTotpSecret,
  randomUsername,
  now,
}: LinePorts): (line: Uint8Array) => ParsedLine {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  const readers: Readers = {
    username: [
      'username',
      (raw) => {
        if (raw === undefined) return { ok: true, value: randomUsername() };
        const username = ofText(newNames.username)(raw);
        return username.ok ? username : { ok: false, message: `${username.message}${MAY_BE_LEFT_OUT}` };
      },
    ],
    // A refused username refuses the line, so its text does not matter then.
    name: [
      'name',
      (raw, { username = '' }) =>
        raw === undefined ? { ok: true, value: username } : ofText(newNames.name)(raw),
    ],
    email: ['email', ofText(newNames.email)],
    hash: ['password_hash', readHash],
    externalId: ['external_id', (raw) => (raw === undefined ? NONE : ofText(parseExternalId)(raw))],
    createdAt: ['created_at', (raw) => (raw === undefined ? NONE : parseCreatedAt(raw, now()))],
    roles: ['roles', (raw) => parseRoles(raw ?? [])],
    disabled: ['disabled', parseFlag],
    emailVerified: ['email_verified', parseFlag],
    totpSecret: ['totp_secret', readTotpSecret],
  };
  const known = Object.values(readers).map(([name]) => name);

  function readUser(object: Record<string, unknown>): ParsedLine {
    const unknown = Object.keys(object).filter((name) => !known.includes(name)).length;
    if (unknown > 0) return bad(`holds ${unknown} unknown fields; known are ${known.join(', ')}`);
    const user: Partial<Record<keyof ImportedUser, unknown>> = {};
    const problems: string[] = [];
    for (const [field, [name, read]] of Object.entries(readers) as [
      keyof ImportedUser,
      Readers[keyof ImportedUser],
    ][]) {
      const given = field === 'hash' ? object[name] : (object[name] ?? undefined);
      const result = read(given, user as Partial<ImportedUser>);
      if (result.ok) user[field] = result.value;
      else problems.push(`${name} ${result.message}`);
    }
    return problems.length === 0 ? { ok: true, user: user as ImportedUser } : bad(problems.join('; '));
  }

  return (line) => {
    let text: string;
    try {
      text = utf8.decode(line);
    } catch {
      return bad('is not UTF-8');
    }
    const object = fromJson(text);
    return object ? readUser(object) : bad('is not a JSON object');
  };
}

function fromJson(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

const NONE = { ok: true, value: null } as const;

/** Behind the problem of a username: whoever cannot have the one of the other system logs in by address. */
export const MAY_BE_LEFT_OUT = ', but may be left out';

function ofText(parse: (raw: string) => Parsed): (raw: unknown) => Parsed {
  return (raw) => {
    if (raw === undefined) return refuse({ code: 'required', message: 'is required' });
    return typeof raw === 'string' ? parse(raw) : refuse({ code: 'type', message: 'must be a string' });
  };
}

/** RFC 3339: with seconds and a time zone. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i;

function parseCreatedAt(raw: unknown, now: number): Parsed<number> {
  const time = typeof raw === 'string' && TIME.test(raw) ? Date.parse(raw) : NaN;
  if (Number.isNaN(time)) return refuse({ code: 'format', message: 'must be a time as in RFC 3339' });
  if (time < 0 || time > now)
    return refuse({ code: 'out_of_range', message: 'must be a time from 1970 until now' });
  return { ok: true, value: time };
}

function parseFlag(raw: unknown): Parsed<boolean> {
  if (raw === undefined) return { ok: true, value: false };
  return typeof raw === 'boolean'
    ? { ok: true, value: raw }
    : refuse({ code: 'type', message: 'must be true or false' });
}

function bad(problem: string): ParsedLine {
  return { ok: false, problem };
}
