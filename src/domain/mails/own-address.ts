import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError } from '../errors.ts';
import type { GuessOrigin, LimitGuess } from '../passwords/guessing-limits.ts';
import { hashOneTimeToken } from '../passwords/one-time-token.ts';
import type { Caller, CallerKey, Principal } from '../principal.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { User } from '../user.ts';
import type { AccountStore, Address } from '../users/account.ts';
import type { FinishUserChange } from '../users/finish-user-change.ts';

/** An account whose address a token has proved. */
export interface ProvedAddress {
  user: User;
  /** Whether this call has proved it; false for a repeat. */
  isNew: boolean;
  /** Whether the fast store and the feed may lack the change. */
  isPending: boolean;
}

export interface OwnAddressStore {
  /**
   * Makes the pending address the account's, verified, with the token that was mailed to it, and voids its resets, in one
   * commit. A repeat with the same token finds the proof until the token expires or the address changes.
   * @returns null if the token is unknown, of another account or kind, voided or expired.
   * @throws AuthError `email_taken` if another account was first; `invalid_token` and `login_too_old` as `lockCaller`;
   * `rate_limited` as `Lanes.run`; `unavailable`
   */
  prove(caller: CallerKey, tokenHash: Uint8Array): Promise<ProvedAddress | null>;
}

interface OwnAddressPorts {
  accounts: Pick<AccountStore, 'address'>;
  ownAddresses: OwnAddressStore;
  tokenStates: Pick<TokenStateStore, 'now'>;
  finishUserChange: FinishUserChange;
  limitGuess: LimitGuess;
  audit: Audit;
}

export interface AddressProof {
  verificationToken: string;
  origin: GuessOrigin;
  from: Sourced;
}

export type OwnAddress = ReturnType<typeof makeOwnAddress>;

/** What users see of their own address, and how a pending one takes its place. */
export function makeOwnAddress(ports: OwnAddressPorts) {
  const { accounts, ownAddresses, tokenStates, finishUserChange, limitGuess, audit } = ports;
  return {
    /** @throws AuthError `token_not_allowed` (an LLT), `invalid_token`, `unavailable` */
    get: async ({ user, type }: Pick<Principal, 'user' | 'type'>): Promise<Address> => {
      if (type !== 'access') throw new AuthError('token_not_allowed');
      const address = await accounts.address(user.id);
      if (!address) throw new AuthError('invalid_token', { reason: 'gone' });
      return address;
    },

    /**
     * Proves the pending address, which is the account's from then on. The token alone is not enough: a stranger at a
     * mistyped address has it too. A repeat is safe.
     * @throws AuthError `token_not_allowed` (an LLT), `invalid_verification_token`, `email_taken`, `invalid_token`,
     * `login_too_old`, `rate_limited`, `unavailable`
     */
    prove: async (caller: Caller, { verificationToken, origin, from }: AddressProof): Promise<void> => {
      // A leaked LLT must not change how its owner logs in.
      if (caller.type !== 'access') throw new AuthError('token_not_allowed');
      const { tokenId, acr } = caller;
      const withFactor = acr !== null;
      const { id: userId, username } = caller.user;
      // Fails here if the fast store is down, before anything is written.
      await tokenStates.now();
      // Each refusal takes a slot of the session as a wrong password does, since it leaves an audit event.
      const guess = {
        name: username,
        account: { userId, knownCallers: [] },
        origin: { ...origin, token: { userId, tokenId, type: 'refresh', withFactor } },
        from,
        failure: () => ({ event: 'email.verification_failed', userId, by: tokenId }) as const,
      } as const;
      const { user, isNew, isPending } = await limitGuess(guess, async () => {
        const proved = await ownAddresses.prove(
          { userId, tokenId, withFactor },
          hashOneTimeToken(verificationToken),
        );
        if (proved === null) throw new AuthError('invalid_verification_token');
        return proved;
      });
      if (isNew) audit({ event: 'email.changed', userId, by: tokenId }, from);
      if (isPending) await finishUserChange(user);
    },
  };
}
