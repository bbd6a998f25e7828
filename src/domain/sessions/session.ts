import type { Acr } from '../principal.ts';
import type { User } from '../user.ts';

/** A pair to issue: everything that goes into its two tokens. */
export interface SessionGrant {
  user: User;
  /** The token record's id. */
  tokenId: number;
  /** Microseconds; see rotation.ts. */
  generation: number;
  /** When the session was created, in milliseconds since 1970. */
  createdAt: number;
  /** How it was opened. No store knows: the refresh token says it. */
  acr: Acr | null;
}
