import { readFileSync } from 'node:fs';
import { isAudience } from '../domain/audience.ts';
import { AuthError } from '../domain/errors.ts';
import { parseRoles } from '../domain/roles.ts';
import { DEFAULT_RIGHTS, parseRights, RIGHTS, rightsAmong, type Right } from '../domain/rights.ts';
import { parseServiceName } from '../domain/services/registered-service.ts';
import { isChosenSecret, isServiceId } from '../domain/services/secret.ts';
import type { AccountRequest } from '../domain/users/account.ts';
import { ACCOUNT_FIELDS, fieldsOf, namedFields } from '../domain/users/account-fields.ts';
import { parseAccountRequest, type AccountRules } from '../domain/users/create-account.ts';
import { comparedOf } from '../domain/users/taken.ts';
import { makeReadTotpSecret } from '../infra/crypto/factor-keys.ts';

/** What SEED_FILE adds to a database, in the forms in which it is stored. */
export interface Seed {
  users: readonly AccountRequest[];
  services: readonly SeededService[];
}

export interface SeededService {
  name: string;
  serviceId: string;
  secret: string;
  rights: readonly Right[];
  audience: string | null;
  roles: readonly string[];
}

export interface SeedRules extends AccountRules {
  /** Whether there is a key of FACTOR_KEYS. */
  canSeal: boolean;
  /** AUDIENCE, which no service may have. */
  ownAudience: string;
}

/** A problem follows the place of a value, such as `users[2].password`, and never holds the value. */
type Note = (place: string, problem: string) => void;

/** @returns the problems, if there are any. */
export function readSeed(file: string, rules: SeedRules): Seed | string[] {
  const problems: string[] = [];
  const note: Note = (place, problem) => problems.push(place === '' ? problem : `${place} ${problem}`);
  const seed = objectIn(textOf(file, note), note);
  if (!seed) return problems;
  checkMembers(seed, ['users', 'services'], '', note);
  const users = listOf(seed.users, 'users', note).map((user, i) =>
    readUser(user, `users[${i}]`, rules, note),
  );
  const services = listOf(seed.services, 'services', note).map((service, i) =>
    readService(service, `services[${i}]`, rules, note),
  );
  refuseEqual('users', users, USER_KEYS, note);
  refuseEqual('services', services, SERVICE_KEYS, note);
  return problems.length > 0 ? problems : { users: present(users), services: present(services) };
}

function textOf(file: string, note: Note): string | null {
  try {
    // It drops a byte order mark, and throws for what is not UTF-8.
    return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file));
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    note('', code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'is not UTF-8' : `cannot be read (${code})`);
    return null;
  }
}

/** The parser's own message would quote the text. */
function objectIn(text: string | null, note: Note): Record<string, unknown> | null {
  if (text === null) return null;
  try {
    return asObject(JSON.parse(text), '', note);
  } catch {
    note('', 'is not JSON');
    return null;
  }
}

function asObject(value: unknown, place: string, note: Note): Record<string, unknown> | null {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  note(place, 'must be an object');
  return null;
}

function listOf(value: unknown, place: string, note: Note): unknown[] {
  if (value === undefined) return [];
  if (Array.isArray(value)) return value;
  note(place, 'must be a list');
  return [];
}

/** The names are not shown: a secret may stand there by mistake. */
function checkMembers(value: object, known: readonly string[], place: string, note: Note): void {
  const unknown = Object.keys(value).filter((name) => !known.includes(name)).length;
  if (unknown === 0) return;
  const members = unknown === 1 ? 'member' : 'members';
  note(place, `holds ${unknown} unknown ${members}; known are ${known.join(', ')}`);
}

const USER_MEMBERS = fieldsOf('seed').map((field) => ACCOUNT_FIELDS[field].json);

function readUser(value: unknown, place: string, rules: SeedRules, note: Note): AccountRequest | null {
  const given = asObject(value, place, note);
  if (!given) return null;
  checkMembers(given, USER_MEMBERS, place, note);
  const texts = ['username', 'email', 'password'].filter((name) => !isText(given, name, place, note));
  const totp = makeReadTotpSecret(rules)(given.totp_secret);
  if (!totp.ok) note(`${place}.totp_secret`, totp.message);
  if (texts.length > 0) return null;
  const { name = given.username } = given;
  const fields = Object.fromEntries(USER_MEMBERS.map((member) => [member, given[member]]));
  // `parseAccountRequest` also refuses values that are no text, so none is checked for that here.
  const request = { ...namedFields(fields), name } as AccountRequest;
  try {
    const parsed = parseAccountRequest(request, rules);
    return totp.ok ? { ...parsed, totpSecret: totp.value } : null;
  } catch (error) {
    if (!(error instanceof AuthError) || !error.errors) throw error;
    for (const { path, message } of error.errors) note(`${place}${path.replaceAll('/', '.')}`, message);
    return null;
  }
}

function isText(given: Record<string, unknown>, name: string, place: string, note: Note): boolean {
  const isGiven = given[name] !== undefined;
  if (isGiven && typeof given[name] === 'string') return true;
  note(`${place}.${name}`, isGiven ? 'must be a string' : 'is required');
  return false;
}

const SERVICE_MEMBERS = ['name', 'id', 'secret', 'may', 'audience', 'roles'];

function readService(
  value: unknown,
  place: string,
  { ownAudience }: SeedRules,
  note: Note,
): SeededService | null {
  const given = asObject(value, place, note);
  if (!given) return null;
  checkMembers(given, SERVICE_MEMBERS, place, note);
  const refused: string[] = [];
  function read<Read>(name: string, problem: string, parse: (value: unknown) => Read | null): Read {
    const parsed = parse(given?.[name]);
    if (parsed === null) {
      refused.push(name);
      note(`${place}.${name}`, problem);
    }
    return parsed as Read;
  }
  const text = (accepts: (text: string) => boolean) => (value: unknown) =>
    typeof value === 'string' && accepts(value) ? value : null;

  const name = read('name', 'must have 1 to 64 printable characters', (value) =>
    typeof value === 'string' ? parseServiceName(value) : null,
  );
  const serviceId = read(
    'id',
    'must be lkc_ and 22 letters, digits, hyphens and underscores',
    text(isServiceId),
  );
  const secret = read(
    'secret',
    'must have 16 to 128 visible ASCII characters, and not begin with lks_ as the secrets that Latchkey makes',
    text(isChosenSecret),
  );
  const rights = read('may', `must be a list of ${RIGHTS.join(', ')} and call:AUDIENCE`, (value) =>
    value === undefined ? DEFAULT_RIGHTS : readRights(value),
  );
  const isFree = (audience: string) => isAudience(audience) && audience !== ownAudience;
  const audience = read(
    'audience',
    'must have 1 to 64 letters, digits, ".", "_", ":" and "-", begin with a letter or digit, and not be AUDIENCE',
    (value) => (value === undefined ? NONE : text(isFree)(value)),
  );
  const roles = parseRoles(given.roles ?? []);
  if (!roles.ok) note(`${place}.roles`, roles.message);
  if (refused.length > 0 || !roles.ok) return null;
  return {
    name,
    serviceId,
    secret,
    rights,
    audience: audience === NONE ? null : audience,
    roles: roles.value,
  };
}

/** A service without an audience. No audience is empty. */
const NONE = '';

function readRights(value: unknown): Right[] | null {
  const isRight = (word: unknown): word is Right =>
    typeof word === 'string' && !word.includes(',') && typeof parseRights(word) !== 'string';
  return Array.isArray(value) && value.every(isRight) ? rightsAmong(value) : null;
}

/** What no two of a list may share, in the forms in which they are compared. */
type KeysOf<Item> = (item: Item) => Record<string, string | null>;

const USER_KEYS: KeysOf<AccountRequest> = ({ username, email, externalId = null }) =>
  comparedOf({ username, email, externalId });
const SERVICE_KEYS: KeysOf<SeededService> = ({ name, serviceId: id, audience }) => ({ name, id, audience });

function refuseEqual<Item>(
  list: string,
  items: readonly (Item | null)[],
  keysOf: KeysOf<Item>,
  note: Note,
): void {
  const first = new Map<string, number>();
  for (const [i, item] of items.entries())
    for (const [name, key] of Object.entries(item === null ? {} : keysOf(item))) {
      if (key === null) continue;
      const earlier = first.get(`${name} ${key}`);
      if (earlier === undefined) first.set(`${name} ${key}`, i);
      else note(`${list}[${i}].${name}`, `is, or looks like, that of ${list}[${earlier}]`);
    }
}

function present<Item>(items: readonly (Item | null)[]): Item[] {
  return items.filter((item) => item !== null);
}
