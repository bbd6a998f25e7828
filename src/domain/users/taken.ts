import { canonicalAddress } from '../address.ts';
import { AuthError, type FieldError } from '../errors.ts';
import { skeletonOf } from './confusables.ts';

/** What no two accounts share, in the order in which an error names it. */
export const UNIQUE_FIELDS = ['username', 'email', 'external_id'] as const;

export type UniqueField = (typeof UNIQUE_FIELDS)[number];

/** Values that an account wants to have alone, in canonical form. */
export interface WantedNames {
  username?: string;
  email?: string;
  /** null to have none. */
  externalId?: string | null;
}

/** Names in the forms in which they are compared. */
export type Compared = Record<UniqueField, string | null>;

export function comparedOf({ username, email, externalId }: Required<WantedNames>): Compared {
  return { username: skeletonOf(username), email: canonicalAddress(email), external_id: externalId };
}

const MESSAGES: Record<UniqueField, string> = {
  username: 'is taken, or looks like one that is',
  email: 'is taken',
  external_id: 'is taken',
};

/** @param taken in any order. */
export function takenErrors(taken: readonly UniqueField[]): FieldError[] {
  return UNIQUE_FIELDS.filter((field) => taken.includes(field)).map((field) => ({
    path: `/${field}`,
    code: 'taken',
    message: MESSAGES[field],
  }));
}

/**
 * Refuses an account that wants what others have. The code names the first, the errors name all.
 * @throws AuthError `username_taken`, `email_taken`, `external_id_taken`, unless `taken` is empty
 */
export function refuseTaken(taken: readonly UniqueField[], cause?: unknown): void {
  const first = UNIQUE_FIELDS.find((field) => taken.includes(field));
  if (first) throw new AuthError(`${first}_taken`, { errors: takenErrors(taken), cause });
}

/** What an error of `refuseTaken` names; empty for any other. */
export function takenIn(error: unknown): UniqueField[] {
  if (!(error instanceof AuthError)) return [];
  const { code, errors = [] } = error;
  if (!UNIQUE_FIELDS.some((field) => code === `${field}_taken`)) return [];
  return UNIQUE_FIELDS.filter((field) => errors.some(({ path }) => path === `/${field}`));
}
