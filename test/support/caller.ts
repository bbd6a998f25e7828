import type { Caller } from '../../src/domain/principal.ts';
import type { User } from '../../src/domain/user.ts';
import { NO_FACTOR } from './token.ts';

/** An owner who requests a change with an access token of this session, as `app.auth.change` makes one. */
export function aCaller(user: User, tokenId: number, generation = 1): Caller {
  return { ...NO_FACTOR, user, tokenId, generation, createdAt: 0, type: 'access', checkedAfterBody: true };
}
