import type { FieldError } from '../errors.ts';
import { fieldError, parseExternalId, refuse, type Parsed } from '../identifiers.ts';
import { parseRoles } from '../roles.ts';
import { parseLocale } from './locale.ts';
import type { NewNames } from './new-names.ts';

/** What is stored for a password that another system hashed, or that we did. */
export interface NewHash {
  /** One of ours, or one that nothing opens in the place of the imported one. */
  passwordHash: Uint8Array;
  /** The text of another system's hash, with its cost. */
  imported?: { hash: string; cost: string };
}

/** What the fields of an account hold, names in their canonical form. */
export interface FieldValues {
  username: string;
  name: string;
  email: string;
  /** Without one, only a reset opens the account. */
  password: string;
  hash: NewHash;
  externalId: string | null;
  /** Milliseconds since 1970; null for now. */
  createdAt: number | null;
  roles: string[];
  disabled: boolean;
  emailVerified: boolean;
  /** The language of its mails; null for none. */
  locale: string | null;
  /** Of an authenticator app that the user has; null for none. */
  totpSecret: Uint8Array | null;
  /** Whether the account wants a mail with which its user sets the first password. */
  invite: boolean;
}

/**
 * `create` and `change` are a service's: `POST /api/users` and `PATCH /api/users/{id}`. `seed` is
 * SEED_FILE's.
 */
export type FieldUse = 'create' | 'change' | 'import' | 'export' | 'seed';

interface AccountField<Value> {
  /** What bodies, lines of a file and errors call it. */
  json: string;
  /** What takes the field, or for an export, what shows it. */
  uses: readonly FieldUse[];
  /** null: whoever takes the field reads it, because that needs more than the text. */
  parse: ((raw: unknown, newNames: NewNames) => Parsed<Value>) | null;
}

/**
 * Every field of an account that others give or get, in the order in which errors name them. Whatever takes or shows
 * fields asks this table which, so that a new one does not compile until each place handles it, and a test compares the
 * documents. What becomes of the columns is beside each statement (infra/postgres/rows.ts).
 */
export const ACCOUNT_FIELDS = {
  username: {
    json: 'username',
    uses: ['create', 'change', 'import', 'export', 'seed'],
    parse: (raw, newNames) => parseText(raw, newNames.username),
  },
  name: {
    json: 'name',
    uses: ['create', 'change', 'import', 'export', 'seed'],
    parse: (raw, newNames) => parseText(raw, newNames.name),
  },
  email: {
    json: 'email',
    uses: ['create', 'change', 'import', 'export', 'seed'],
    parse: (raw, newNames) => parseText(raw, newNames.email),
  },
  password: { json: 'password', uses: ['create', 'seed'], parse: null },
  hash: { json: 'password_hash', uses: ['import', 'export'], parse: null },
  externalId: {
    json: 'external_id',
    uses: ['create', 'change', 'import', 'export', 'seed'],
    parse: (raw) => (raw === null ? NONE : parseText(raw, parseExternalId)),
  },
  createdAt: { json: 'created_at', uses: ['import', 'export'], parse: null },
  roles: { json: 'roles', uses: ['create', 'change', 'import', 'export', 'seed'], parse: parseRoles },
  disabled: { json: 'disabled', uses: ['create', 'change', 'import', 'export'], parse: parseFlag },
  emailVerified: {
    json: 'email_verified',
    uses: ['create', 'change', 'import', 'export', 'seed'],
    parse: parseFlag,
  },
  locale: {
    json: 'locale',
    uses: ['create', 'change', 'import', 'export'],
    parse: (raw) => (raw === null ? NONE : parseText(raw, parseLocale)),
  },
  // An export holds no factors: their secrets are encrypted for one installation.
  totpSecret: { json: 'totp_secret', uses: ['import', 'seed'], parse: null },
  invite: { json: 'invite', uses: ['create'], parse: parseFlag },
} as const satisfies { [Field in keyof FieldValues]: AccountField<FieldValues[Field]> };

type Fields = typeof ACCOUNT_FIELDS;
type Field = keyof Fields;

/** The fields that something takes or shows. */
export type FieldOf<Use extends FieldUse> = {
  [Name in Field]: Use extends Fields[Name]['uses'][number] ? Name : never;
}[Field];

/** What a body or a line calls them. */
export type JsonOf<Use extends FieldUse> = Fields[FieldOf<Use>]['json'];

export function fieldsOf<Use extends FieldUse>(use: Use): FieldOf<Use>[] {
  const uses = (field: Field): readonly FieldUse[] => ACCOUNT_FIELDS[field].uses;
  return (Object.keys(ACCOUNT_FIELDS) as Field[]).filter((field): field is FieldOf<Use> =>
    uses(field).includes(use),
  );
}

/**
 * Reads those of the given fields that the table can read; the others stay as they are.
 * @returns an error for each that is refused, which does not contain its value.
 */
export function parseFields<Given extends Partial<FieldValues>>(
  given: Given,
  newNames: NewNames,
): { values: Given; errors: FieldError[] } {
  const values: Record<string, unknown> = { ...given };
  const errors: FieldError[] = [];
  for (const field of Object.keys(ACCOUNT_FIELDS) as Field[]) {
    const { json, parse } = ACCOUNT_FIELDS[field];
    if (given[field] === undefined || parse === null) continue;
    const parsed: Parsed<unknown> = parse(given[field], newNames);
    if (parsed.ok) values[field] = parsed.value;
    else errors.push(fieldError(`/${json}`, parsed));
  }
  return { values: values as Given, errors };
}

type NameOf<Json> = { [Name in Field]: Fields[Name]['json'] extends Json ? Name : never }[Field];

/** A body with the table's names for its fields. */
export type Named<Body> = { [Json in keyof Body as NameOf<Json>]: Body[Json] };

/** @param body holds what a closed schema takes. What is no field of the table is left out. */
export function namedFields<Body extends object>(body: Body): Named<Body> {
  const values = body as Partial<Record<string, unknown>>;
  const named = (Object.keys(ACCOUNT_FIELDS) as Field[])
    .map((field) => [field, values[ACCOUNT_FIELDS[field].json]] as const)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(named) as Named<Body>;
}

const NONE = { ok: true, value: null } as const;

function parseText(raw: unknown, parse: (raw: string) => Parsed): Parsed {
  if (raw === undefined) return refuse({ code: 'required', message: 'is required' });
  return typeof raw === 'string' ? parse(raw) : refuse({ code: 'type', message: 'must be a string' });
}

function parseFlag(raw: unknown): Parsed<boolean> {
  return typeof raw === 'boolean'
    ? { ok: true, value: raw }
    : refuse({ code: 'type', message: 'must be true or false' });
}
