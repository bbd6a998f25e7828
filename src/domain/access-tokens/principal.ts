import type { User } from '../users/user.ts';
import type { TokenIdentity } from './claims.ts';

/** A token whose signature, type, issuer, audience and expiry are right. Whether its session lives is another matter. */
export interface Bearer extends TokenIdentity {
  type: 'access' | 'llt';
}

/** Who is asking: the owner of a bearer token that has been found good. Only `makeVerify` makes one. */
export interface Principal {
  user: User;
  /** The token record's id. */
  tokenId: number;
  type: Bearer['type'];
}
