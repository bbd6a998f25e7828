import { objectsIn, parsedFields, type JsonObject } from './export-file.ts';
import { keyIn, keyOf, spoken, type Factor, type System } from './system.ts';

/** A realm's export, of one file or one of `--users different_files`. */
export const keycloak: System = {
  what: "a realm with its users, as Keycloak's `kc.sh export --realm NAME` writes it (the admin console exports none)",
  list: 'users',
  isLines: false,
  split: 'let `kc.sh export` write smaller files (--users different_files --users-per-file 10000)',
  // Accounts of the admin API have no list of credentials, and would lose their passwords.
  isAccount: (user) => 'username' in user && Array.isArray(user.credentials),

  open: (_, { document }) =>
    Promise.resolve((user) => {
      if ('serviceAccountClientId' in user) return { leftOut: 'is the service account of a client' };
      const credentials = objectsIn(user.credentials);
      const password = credentials.find(({ type }) => type === 'password') ?? null;
      return {
        id: user.id,
        username: user.username,
        names: [spoken(user.firstName, user.lastName)],
        email: user.email,
        emailVerified: user.emailVerified === true,
        passwordHash: password,
        createdAt: user.createdTimestamp,
        roles: rolesOf(user.realmRoles, document.realm),
        disabled: user.enabled === false,
        factors: credentials.filter(({ type }) => !NO_FACTORS.includes(type)).map(factorOf),
        ...(password && isToChange(user.requiredActions) && { withoutPassword: TO_CHANGE }),
        ...(credentials.some(({ type }) => type === PASSKEY) && { notes: [STAYS_BEHIND] }),
      };
    }),
};

/** Roles that Keycloak gives everybody. */
const BUILT_IN = /^(offline_access|uma_authorization|default-roles-.*)$/;
/** Roles of the realm master, which manages Keycloak itself. */
const OF_MASTER = /^(admin|create-realm)$/;

/** @param realm whose users these are; undefined for lines, which are of master if a role of it stands in them. */
function rolesOf(roles: unknown, realm: unknown): unknown[] {
  if (!Array.isArray(roles)) return [];
  const isOfMaster =
    realm === 'master' ||
    roles.includes('default-roles-master') ||
    (typeof realm !== 'string' && roles.includes('create-realm'));
  const builtIn = isOfMaster ? [BUILT_IN, OF_MASTER] : [BUILT_IN];
  return roles.filter((role) => typeof role !== 'string' || !builtIn.some((pattern) => pattern.test(role)));
}

/** Of a temporary password, which somebody else may know, and of one that Keycloak accepts only to be changed. */
const TO_CHANGE =
  'has to be changed at the next login (UPDATE_PASSWORD), which Latchkey does not demand: send a reset token';

function isToChange(requiredActions: unknown): boolean {
  return Array.isArray(requiredActions) && requiredActions.includes('UPDATE_PASSWORD');
}

const PASSKEY = 'webauthn-passwordless';
const STAYS_BEHIND = 'logs in with a passkey instead of the password, which stays behind';

/** Credentials that log in instead of the password, or log in no more. */
const NO_FACTORS: readonly unknown[] = ['password', 'password-history', PASSKEY];

function factorOf(credential: JsonObject): Factor {
  return (credential.type === 'otp' ? secretOf(credential) : null) ?? 'other';
}

/** @returns null if no app of Latchkey's kind has this secret. */
function secretOf({ credentialData, secretData }: JsonObject): Uint8Array | null {
  const { subType, digits, period, algorithm, secretEncoding } = parsedFields(credentialData);
  const { value } = parsedFields(secretData);
  if (subType !== 'totp' || digits !== 6 || period !== 30 || algorithm !== 'HmacSHA1') return null;
  if (typeof value !== 'string') return null;
  // OTPCredentialModel.getDecodedSecret: text, whose bytes are the key, unless the encoding is named.
  if (secretEncoding === undefined || secretEncoding === null) return keyOf(value);
  return typeof secretEncoding === 'string' && secretEncoding.toUpperCase() === 'BASE32'
    ? keyIn(value)
    : null;
}
