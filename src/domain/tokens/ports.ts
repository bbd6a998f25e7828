import type { User } from '../users/user.ts';
import type { SessionState } from '../sessions/rotation.ts';
import type { TokenRecord } from './token-record.ts';

export interface NewSession {
  /** The device. */
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  state: SessionState;
}

/** The durable token records. Every method fails with AuthError('unavailable') when the database is away. */
export interface TokenStore {
  /**
   * Adds a session under a lock on the user's row, in one transaction with the revocation of whatever has to make
   * room for it: of more than `limit` sessions younger than `liveSince` (µs) those unused for longest go.
   * @returns null when the user has gone or was disabled meanwhile.
   */
  addSession(
    userId: number,
    session: NewSession,
    room: { limit: number; liveSince: number },
  ): Promise<{ id: number; replaced: number[] } | null>;

  /**
   * Adds a long-lived token, under the same lock.
   * @returns null when the user already has `limit` of them.
   */
  addLongLived(
    userId: number,
    token: { name: string; createdAt: number },
    limit: number,
  ): Promise<number | null>;

  /** The record with its owner, revoked or not; null when there is none. */
  find(id: number): Promise<{ record: TokenRecord; user: User } | null>;

  /**
   * Marks a record of this user as revoked; one that is already stays as it was.
   * @param type only a record of this type.
   * @returns false when this user has no such record.
   */
  revoke(userId: number, id: number, at: number, type?: TokenRecord['type']): Promise<boolean>;

  /** Every record of the user that is not revoked, oldest first. */
  list(userId: number): Promise<TokenRecord[]>;
}
