import { CommandError } from '../command.ts';
import { isObject, objectsIn, parsedFields, readText, type JsonObject } from './export-file.ts';
import type { Factor, System } from './system.ts';

const PARAMETERS = 'the password hash parameters of the Firebase console';

/** `firebase auth:export FILE.json`. */
export const firebase: System = {
  what: 'the users that `firebase auth:export FILE.json` writes',
  list: 'users',
  isLines: false,
  // The tool has no option for it.
  split: "split its list, as with jq -c '.users[]'",
  isAccount: (user) => 'localId' in user,
  factorList: "the API's accounts:batchGet has mfaInfo, and listUsers() of the Admin SDK has multiFactor",
  with: { what: PARAMETERS, isRequired: true },

  async open(file) {
    if (!file) throw new CommandError(`--with FILE has to name ${PARAMETERS}`);
    const prefix = prefixOf(await readText(file, 'the file of --with'));
    return (user) => ({
      id: user.localId,
      names: [user.displayName],
      email: user.email,
      emailVerified: user.emailVerified === true,
      passwordHash: hashOf(user, prefix),
      // Milliseconds, as text.
      createdAt: typeof user.createdAt === 'string' ? Number(user.createdAt) : user.createdAt,
      disabled: user.disabled === true,
      factors: factorsOf(user.mfaInfo),
      ...lostPassword(user),
    });
  },
};

/** The tool writes no list, but what asks the API itself may. What is no list may name a factor all the same. */
function factorsOf(mfaInfo: unknown): Factor[] | undefined {
  const isEmpty = Array.isArray(mfaInfo) && mfaInfo.length === 0;
  return mfaInfo === undefined || mfaInfo === null || isEmpty ? undefined : ['other'];
}

/** What the API writes in the place of a hash for somebody who may not read it. */
const REDACTED = Buffer.from('REDACTED').toString('base64');

function lostPassword({ passwordHash, providerUserInfo }: JsonObject): { withoutPassword?: string } {
  if (passwordHash === REDACTED)
    return {
      withoutPassword:
        'its hash is REDACTED: the export lacks the permission firebaseauth.configs.getHashConfig',
    };
  const isEmpty = passwordHash === undefined || passwordHash === null || passwordHash === '';
  const hasPassword = objectsIn(providerUserInfo).some(({ providerId }) => providerId === 'password');
  return isEmpty && hasPassword ? { withoutPassword: 'logs in with a password, but has no hash' } : {};
}

function hashOf({ passwordHash, salt }: JsonObject, prefix: string): string | null {
  if (typeof passwordHash !== 'string' || passwordHash === '') return null;
  return `${prefix}$${typeof salt === 'string' ? salt : ''}$${passwordHash}`;
}

/** Each parameter, as the console writes it and as the API does. */
const NAMES = {
  algorithm: ['algorithm'],
  key: ['base64_signer_key', 'signerKey'],
  separator: ['base64_salt_separator', 'saltSeparator'],
  rounds: ['rounds'],
  memory: ['mem_cost', 'memoryCost'],
} as const;

/** The part of each hash that is the project's. @throws CommandError */
function prefixOf(text: string): string {
  const given = parametersOf(text);
  const find = (names: readonly string[]) =>
    names.map((name) => given[name]).find((value) => typeof value === 'string');
  const { algorithm, key, separator, rounds, memory } = Object.fromEntries(
    Object.entries(NAMES).map(([name, names]) => [name, find(names)]),
  ) as Partial<Record<keyof typeof NAMES, string>>;
  if (algorithm !== undefined && algorithm !== 'SCRYPT')
    throw new CommandError('the file of --with names another algorithm than SCRYPT, which Firebase uses');
  const missing = Object.entries({ key, separator, rounds, memory })
    .filter(([, value]) => value === undefined)
    .map(([name]) => NAMES[name as keyof typeof NAMES][0]);
  if (missing.length > 0)
    throw new CommandError(`the file of --with lacks ${missing.join(', ')}: it should hold ${PARAMETERS}`);
  return `$fbscrypt$v=1,n=${memory},r=${rounds},p=1,ss=${separator},sk=${key}`;
}

/** The console shows `name: value` lines, the API answers with JSON. */
function parametersOf(text: string): Readonly<Record<string, unknown>> {
  const object = parsedFields(text);
  const config =
    [object.signIn, object]
      .filter(isObject)
      .map(({ hashConfig }) => hashConfig)
      .find(isObject) ?? object;
  if (Object.keys(config).length > 0)
    return Object.fromEntries(
      Object.entries(config).map(([name, value]) => [
        name,
        typeof value === 'number' ? String(value) : value,
      ]),
    );
  return Object.fromEntries(
    [...text.matchAll(/^[ \t]*"?(\w+)"?[ \t]*:[ \t]*"?([^\s",]+)"?,?[ \t\r]*$/gm)].map(
      ([, name = '', value = '']) => [name, value],
    ),
  );
}
