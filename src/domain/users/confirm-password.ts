import type { Caller } from '../principal.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError } from '../errors.ts';
import type { Turn } from '../passwords/bulkhead.ts';
import type { CheckPassword } from '../passwords/check-password.ts';
import type { Guess, GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import type { OwnAccount, UserStore } from './ports.ts';

interface ConfirmPasswordPorts {
  users: Pick<UserStore, 'findOwn'>;
  limitGuess: LimitGuess;
  checkPassword: CheckPassword;
}

/** Where a request that holds the current password came from. */
export interface ConfirmationSource {
  turn: Turn;
  origin: GuessOrigin;
  from: Sourced;
}

/**
 * Checks that a signed-in caller knows the account's password: a stolen access token is not enough. Limited like a
 * login from the caller's device, so that the holder of a stolen token gets no more guesses than its owner.
 */
export function makeConfirmPassword({ users, limitGuess, checkPassword }: ConfirmPasswordPorts) {
  /**
   * @param password as it was sent: a hash of another system may need it so.
   * @returns the account, with the version of the password that was checked.
   * @throws AuthError `invalid_token` (the account is gone), `invalid_credentials`, `rate_limited`, `overloaded`,
   * `unavailable`
   */
  return async function confirmPassword(
    { user, tokenId, acr }: Caller,
    password: string,
    { turn, origin, from }: ConfirmationSource,
  ): Promise<OwnAccount> {
    const account = await users.findOwn(user.id);
    if (!account) throw new AuthError('invalid_token', { reason: 'gone' });
    const guess: Guess = {
      name: account.user.username,
      account: { userId: user.id, knownCallers: account.knownCallers },
      origin: { ...origin, token: { userId: user.id, tokenId, type: 'refresh', withFactor: acr !== null } },
      from,
      failure: () => ({ event: 'password.wrong', userId: user.id, by: tokenId }),
    };
    return limitGuess(guess, async (_, earlier) => {
      const { passwordHash: hash } = account;
      if (await checkPassword({ hash, password, earlier, mayOpen: true, share: 'known', turn }))
        return account;
      throw new AuthError('invalid_credentials', { reason: 'password' });
    });
  };
}

export type ConfirmPassword = ReturnType<typeof makeConfirmPassword>;
