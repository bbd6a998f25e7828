import type { NewSession } from '../tokens/ports.ts';
import type { LoginName } from './identifiers.ts';
import type { User } from './user.ts';

export interface NewUser {
  username: string;
  email: string;
  name: string;
  passwordHash: Uint8Array;
}

/** An account, as a login needs it. */
export interface LoginAccount {
  user: User;
  passwordHash: Uint8Array;
  /** The fingerprints of callers that have logged in recently. */
  knownClients: readonly string[];
}

/** The accounts. Every method fails with AuthError('unavailable') when the database is away. */
export interface UserStore {
  /**
   * Adds an account and its first session in one transaction, so that an account never lacks its session.
   * @throws AuthError `username_taken` (also by a lookalike), `email_taken`
   */
  addWithSession(user: NewUser, session: NewSession): Promise<{ userId: number; tokenId: number }>;

  /** Which of the two is taken, the username first, also by a lookalike; null for neither. */
  findTaken(username: string, email: string): Promise<'username_taken' | 'email_taken' | null>;

  /** The account of a name; null if there is none. */
  findForLogin(name: LoginName): Promise<LoginAccount | null>;

  /** Replaces the hash, unless it has changed since it was read. */
  replaceHash(userId: number, from: Uint8Array, to: Uint8Array): Promise<void>;
}
