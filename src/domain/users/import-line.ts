import { refuse, type Parsed } from '../identifiers.ts';
import { ACCOUNT_FIELDS, fieldsOf, type FieldOf, type FieldValues, type NewHash } from './account-fields.ts';
import type { NewNames } from './new-names.ts';

type ImportField = FieldOf<'import'>;

/** An account to add. */
export type ImportedUser = Pick<FieldValues, ImportField>;

export type ParsedLine = { ok: true; user: ImportedUser } | { ok: false; problem: string };

/** What a reader makes of a field; the message of a refusal follows the field's name. */
export type ReadField<Value> = { ok: true; value: Value } | { ok: false; message: string };

/**
 * What reads each field of a line. A line that lacks the field gives `undefined`, and so does `null`, which sources write
 * for what they lack; only as a hash it says something, that there is no password. A reader also gets what the fields
 * before its own have become.
 */
type Readers = {
  [Field in ImportField]: (raw: unknown, before: Partial<ImportedUser>) => ReadField<ImportedUser[Field]>;
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
  const { username, name, email, externalId, roles, disabled, emailVerified, locale } = ACCOUNT_FIELDS;
  const readers: Readers = {
    username: (raw) => {
      if (raw === undefined) return { ok: true, value: randomUsername() };
      const parsed = username.parse(raw, newNames);
      return parsed.ok ? parsed : { ok: false, message: `${parsed.message}${MAY_BE_LEFT_OUT}` };
    },
    // A refused username refuses the line, so its text does not matter then.
    name: (raw, { username = '' }) =>
      raw === undefined ? { ok: true, value: username } : name.parse(raw, newNames),
    email: (raw) => email.parse(raw, newNames),
    hash: readHash,
    externalId: (raw = null) => externalId.parse(raw),
    createdAt: (raw) => (raw === undefined ? { ok: true, value: null } : parseCreatedAt(raw, now())),
    roles: (raw = []) => roles.parse(raw),
    disabled: (raw = false) => disabled.parse(raw),
    emailVerified: (raw = false) => emailVerified.parse(raw),
    locale: (raw = null) => locale.parse(raw),
    totpSecret: readTotpSecret,
  };
  const fields = fieldsOf('import');
  const known = fields.map((field) => ACCOUNT_FIELDS[field].json as string);

  function readUser(object: Record<string, unknown>): ParsedLine {
    const unknown = Object.keys(object).filter((name) => !known.includes(name)).length;
    if (unknown > 0) return bad(`holds ${unknown} unknown fields; known are ${known.join(', ')}`);
    const user: Partial<Record<ImportField, unknown>> = {};
    const problems: string[] = [];
    for (const field of fields) {
      const { json } = ACCOUNT_FIELDS[field];
      const given = field === 'hash' ? object[json] : (object[json] ?? undefined);
      const result = readers[field](given, user as Partial<ImportedUser>);
      if (result.ok) user[field] = result.value;
      else problems.push(`${json} ${result.message}`);
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

/** Behind the problem of a username: whoever cannot have the one of the other system logs in by address. */
export const MAY_BE_LEFT_OUT = ', but may be left out';

/** RFC 3339: with seconds and a time zone. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i;

function parseCreatedAt(raw: unknown, now: number): Parsed<number> {
  const time = typeof raw === 'string' && TIME.test(raw) ? Date.parse(raw) : NaN;
  if (Number.isNaN(time)) return refuse({ code: 'format', message: 'must be a time as in RFC 3339' });
  if (time < 0 || time > now)
    return refuse({ code: 'out_of_range', message: 'must be a time from 1970 until now' });
  return { ok: true, value: time };
}

function bad(problem: string): ParsedLine {
  return { ok: false, problem };
}
