import type { FileHandle } from 'node:fs/promises';
import { CommandError } from '../command.ts';
import { fieldsOf, objectsIn, openList, type JsonObject, type ListForm } from './export-file.ts';
import { spoken, type Factor, type System } from './system.ts';

const DATABASE = 'auth0|';

/** What Auth0's support sends on request. */
const HASHES: ListForm = {
  what: "the password hashes that Auth0's support sends, a line each",
  list: null,
  isLines: true,
  split: 'it should have a line for each hash',
  // A user whose password came to Auth0 with another system's hash has no `passwordHash`.
  isAccount: (object) => '_id' in object,
};

/** A bulk export of the Management API (a job of type users-exports, format json). */
export const auth0: System = {
  what: "a bulk user export of Auth0's Management API in the format json, a line for each user",
  list: null,
  isLines: true,
  split: 'export with the format json, which has a line for each user',
  isAccount: (user) => 'user_id' in user,
  factorList:
    'request the field multifactor in the export job, or list /api/v2/users/ID/authentication-methods',
  with: { what: HASHES.what, isRequired: false },

  async open(file) {
    const hashes = file && (await readHashes(file));
    return (user) => {
      const id = databaseId(user);
      const hash = id === null ? null : (hashes?.get(id) ?? null);
      const isLost = id !== null && hash === null;
      return {
        id: user.user_id,
        username: user.username,
        names: [user.name, spoken(user.given_name, user.family_name), user.nickname],
        email: user.email,
        emailVerified: user.email_verified === true,
        passwordHash: hash,
        createdAt: user.created_at,
        disabled: user.blocked === true,
        factors: factorsOf(user.multifactor),
        ...(isLost && {
          withoutPassword: hashes
            ? 'the file of --with has no hash for it'
            : "Auth0 exports no hashes: give --with FILE what Auth0's support sends",
        }),
      };
    };
  },
};

/** The id under which the password of a user is kept, who may have linked it to a social login. */
function databaseId({ user_id, identities }: JsonObject): string | null {
  if (typeof user_id === 'string' && user_id.startsWith(DATABASE)) return user_id;
  const id = objectsIn(identities).find(({ provider }) => provider === 'auth0')?.user_id;
  return typeof id === 'string' ? `${DATABASE}${id}` : null;
}

/** Auth0 lists the factors without their secrets. What is no list may name one all the same. */
function factorsOf(multifactor: unknown): Factor[] | undefined {
  if (multifactor === undefined || multifactor === null) return undefined;
  return Array.isArray(multifactor) && multifactor.length === 0 ? [] : ['other'];
}

/** By user id. @throws CommandError if a line is damaged: its user would lose the password. */
async function readHashes(file: FileHandle): Promise<Map<string, unknown>> {
  const hashes = new Map<string, unknown>();
  const list = await openList(file, 'the file of --with', HASHES);
  for await (const { object, place, problem } of list.accounts()) {
    if (!object) throw new CommandError(`line ${place.at} of the file of --with ${problem}`);
    const id = object.alt_id ?? fieldsOf(object._id).$oid ?? object._id;
    if (typeof id === 'string') hashes.set(`${DATABASE}${id}`, object.passwordHash);
  }
  return hashes;
}
