import { parseExternalId, refuse, type Parsed } from '../identifiers.ts';
import type { NewNames } from './new-names.ts';
import { parseRoles } from '../roles.ts';

/** What is stored for a password that another system hashed, or that we did. */
export interface NewHash {
  /** One of ours, or one that nothing opens in the place of the imported one. */
  passwordHash: Uint8Array;
  /** The text of another system's hash, with its cost. */
  imported?: { hash: string; cost: string };
}

export type ParsedHash = { ok: true; value: NewHash } | { ok: false; message: string };

export type ParsedSecret = { ok: true; value: Uint8Array | null } | { ok: false; message: string };

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

interface LinePorts {
  newNames: NewNames;
  readHash: (value: unknown) => ParsedHash;
  readTotpSecret: (value: unknown) => ParsedSecret;
  /** Milliseconds since 1970. */
  now: () => number;
}

const FIELDS = [
  'username',
  'name',
  'email',
  'password_hash',
  'external_id',
  'created_at',
  'roles',
  'disabled',
  'email_verified',
  'totp_secret',
];

/** Reads a line of a file of users. Its problems name fields, and hold no value. */
export function makeReadLine({
  newNames,
  readHash,
  readTotpSecret,
  now,
}: LinePorts): (line: Uint8Array) => ParsedLine {
  const utf8 = new TextDecoder('utf-8', { fatal: true });

  function readUser(object: Record<string, unknown>): ParsedLine {
    const unknown = Object.keys(object).filter((field) => !FIELDS.includes(field)).length;
    if (unknown > 0) return bad(`holds ${unknown} unknown fields; known are ${FIELDS.join(', ')}`);
    const parsed = {
      username: ofText(object.username, newNames.username),
      name: ofText(object.name, newNames.name),
      email: ofText(object.email, newNames.email),
      password_hash: readHash(object.password_hash),
      external_id: readExternalId(object.external_id),
      created_at: parseCreatedAt(object.created_at, now()),
      roles: parseRoles(object.roles ?? []),
      disabled: parseFlag(object.disabled),
      email_verified: parseFlag(object.email_verified),
      totp_secret: readTotpSecret(object.totp_secret),
    };
    const problems = Object.entries(parsed).flatMap(([field, result]) =>
      result.ok ? [] : [`${field} ${result.message}`],
    );
    const { username, name, email, password_hash, external_id } = parsed;
    const { created_at, roles, disabled, email_verified, totp_secret } = parsed;
    if (!(username.ok && name.ok && email.ok && password_hash.ok && external_id.ok))
      return bad(problems.join('; '));
    if (!(created_at.ok && roles.ok && disabled.ok && email_verified.ok && totp_secret.ok))
      return bad(problems.join('; '));
    return {
      ok: true,
      user: {
        username: username.value,
        name: name.value,
        email: email.value,
        externalId: external_id.value,
        hash: password_hash.value,
        createdAt: created_at.value,
        roles: roles.value,
        disabled: disabled.value,
        emailVerified: email_verified.value,
        totpSecret: totp_secret.value,
      },
    };
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

function ofText(raw: unknown, parse: (raw: string) => Parsed): Parsed {
  if (raw === undefined) return refuse({ code: 'required', message: 'is required' });
  return typeof raw === 'string' ? parse(raw) : refuse({ code: 'type', message: 'must be a string' });
}

function readExternalId(raw: unknown): Parsed<string | null> {
  return raw === undefined || raw === null ? { ok: true, value: null } : ofText(raw, parseExternalId);
}

/** RFC 3339: with seconds and a time zone. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/i;

function parseCreatedAt(raw: unknown, now: number): Parsed<number | null> {
  if (raw === undefined) return { ok: true, value: null };
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
