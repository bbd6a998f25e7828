import type { User } from '../users/user.ts';

/** A pair to be issued: everything that its two tokens are made of. */
export interface SessionGrant {
  user: User;
  /** The token record's id. */
  tokenId: number;
  /** Microseconds; see rotation.ts. */
  generation: number;
  /** When the session was created, in milliseconds since 1970. */
  createdAt: number;
}
