import { fieldsOf, type JsonObject } from './export-file.ts';
import { keyIn, type Factor, type System } from './system.ts';

/** A row of `auth.users` as JSON on each line, best with the rows of `auth.mfa_factors`. */
export const supabase: System = {
  what: "a line of JSON for each row of Supabase's auth.users",
  list: null,
  isLines: true,
  split: 'write one object a line (docs/importing.md has the query)',
  isAccount: (user) => 'encrypted_password' in user && 'aud' in user,

  factorList: 'auth.mfa_factors, as in the query of docs/importing.md',

  open: () =>
    Promise.resolve((user) => {
      if (isGiven(user.deleted_at)) return { leftOut: 'is deleted' };
      const { full_name, name } = fieldsOf(user.raw_user_meta_data);
      return {
        id: user.id,
        names: [full_name, name],
        email: user.email,
        emailVerified: isGiven(user.email_confirmed_at),
        passwordHash: user.encrypted_password,
        createdAt: user.created_at,
        disabled: isBanned(user.banned_until),
        factors: factorsOf(user.mfa_factors),
      };
    }),
};

function isGiven(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

/** Anything but a time that has passed, such as 'infinity'. */
function isBanned(until: unknown): boolean {
  return typeof until === 'string' && until !== '' && !(Date.parse(until) <= Date.now());
}

/**
 * @param rows of auth.mfa_factors: null for none; missing if the query did not ask for them. What cannot be read counts
 * as a factor, because its account would open by the password alone.
 */
function factorsOf(rows: unknown): Factor[] | undefined {
  if (rows === undefined) return undefined;
  if (rows === null) return [];
  if (!Array.isArray(rows)) return ['other'];
  const counting = rows.map(fieldsOf).filter(({ status }) => status !== 'unverified');
  return counting.map((row) => secretOf(row) ?? 'other');
}

/** Supabase's codes have 6 digits, 30 s and SHA-1. A project may encrypt the secret, which is then no base32. */
function secretOf({ status, factor_type, secret }: JsonObject): Uint8Array | null {
  const isTotp = status === 'verified' && factor_type === 'totp';
  return isTotp && typeof secret === 'string' ? keyIn(secret) : null;
}
