import type { TokenKey } from '../principal.ts';
import type { Clock } from '../clock.ts';
import type { TokenStateStore } from './token-state-store.ts';
import type { RevocationStore, Revoked, TokenStore } from './ports.ts';
import type { TokenRecord } from './token-record.ts';

/** Called when a token has ended on record, before the fast store knows. */
type OnRecorded = () => void;

interface RevokePorts {
  tokenStates: Pick<TokenStateStore, 'revoke'>;
  tokens: Pick<TokenStore, 'revoke'>;
  revocations: Pick<RevocationStore, 'settle'>;
  clock: Clock;
}

/**
 * Ends a token for good: first in the record, so that no rebuild can bring it back, then in the fast store, so that
 * every replica refuses it from now on. It succeeds only after both, and a repeat is safe. Used for owners who present
 * this very token, and for registered services.
 * @param onRecorded not called for a repeat.
 * @returns false when the user has no such token.
 */
export function makeRevoke(ports: RevokePorts) {
  const { tokens, clock } = ports;

  return async function revoke(
    userId: number,
    tokenId: number,
    type?: TokenRecord['type'],
    onRecorded?: OnRecorded,
  ): Promise<boolean> {
    const revoked = await tokens.revoke(userId, tokenId, clock.now(), type);
    return complete(ports, { userId, tokenId }, revoked, onRecorded);
  };
}

export type Revoke = ReturnType<typeof makeRevoke>;

type RevokeByCallerPorts = Omit<RevokePorts, 'tokens'> & { tokens: Pick<TokenStore, 'revokeByCaller'> };

/**
 * As `makeRevoke`, for an owner who presents another token, which must still be good at this moment.
 * @returns false when the user has no such token.
 */
export function makeRevokeByCaller(ports: RevokeByCallerPorts) {
  const { tokens, clock } = ports;

  /** @throws AuthError `invalid_token` (the caller's token has ended meanwhile), `unavailable` */
  return async function revokeByCaller(
    caller: TokenKey,
    tokenId: number,
    type?: TokenRecord['type'],
    onRecorded?: OnRecorded,
  ): Promise<boolean> {
    const revoked = await tokens.revokeByCaller(caller, tokenId, clock.now(), type);
    return complete(ports, { userId: caller.userId, tokenId }, revoked, onRecorded);
  };
}

export type RevokeByCaller = ReturnType<typeof makeRevokeByCaller>;

/**
 * Second half of a revocation that is on record. If it fails, the next sweep sets the tombstone again. A repeat of a
 * finished one sets none: an account in a loop must not fill the fast store with tombstones of all its ended tokens.
 */
async function complete(
  { tokenStates, revocations }: Pick<RevokePorts, 'tokenStates' | 'revocations'>,
  key: TokenKey,
  revoked: Revoked | null,
  onRecorded?: OnRecorded,
): Promise<boolean> {
  if (revoked === null) return false;
  if (revoked === 'finished') return true;
  if (revoked === 'now') onRecorded?.();
  await tokenStates.revoke(key);
  await revocations.settle([key.tokenId]);
  return true;
}
