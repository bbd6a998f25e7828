import type { NewSession } from '../tokens/ports.ts';
import type { LoginName } from './identifiers.ts';
import type { User } from './user.ts';

export interface NewUser {
  username: string;
  email: string;
  name: string;
  passwordHash: Uint8Array;
}

/** The accounts. Every method fails with AuthError('unavailable') when the database is away. */
export interface UserStore {
  /**
   * Adds an account and its first session in one transaction, so that no account is ever half created.
   * @throws AuthError `username_taken`, `email_taken`
   */
  addWithSession(user: NewUser, session: NewSession): Promise<{ userId: number; tokenId: number }>;

  /** Which of the two is taken already, the username first; null for neither. */
  findTaken(username: string, email: string): Promise<'username_taken' | 'email_taken' | null>;

  /** The account and its password hash; null when there is none. */
  findForLogin(name: LoginName): Promise<{ user: User; passwordHash: Uint8Array } | null>;

  /** Replaces the hash, unless it has changed since it was read. */
  replaceHash(userId: number, from: Uint8Array, to: Uint8Array): Promise<void>;
}
