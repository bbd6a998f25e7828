import type { Principal } from '../access-tokens/principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { SessionStateStore } from '../sessions/ports.ts';
import type { TokenStore } from '../tokens/ports.ts';
import { putCreated } from '../tokens/put-created.ts';
import { initialState } from '../sessions/rotation.ts';
import { parseLabel } from '../users/identifiers.ts';

interface CreateLongLivedPorts {
  tokens: Pick<TokenStore, 'addLongLived'>;
  states: Pick<SessionStateStore, 'now' | 'put'>;
  /** MAX_LLT_PER_USER. */
  maxTokens: number;
  clock: Clock;
  audit: Audit;
}

export interface LongLivedGrant {
  userId: number;
  tokenId: number;
  /** Milliseconds since 1970. */
  createdAt: number;
}

/**
 * Creates a long-lived token for a named device.
 * @param kid the key that is to sign it: which may not go before it does.
 * @throws AuthError `token_not_allowed` (asked for with an LLT), `validation_failed`, `too_many_tokens`, `unavailable`,
 * `invalid_token` (of a user who was disabled meanwhile)
 */
export function makeCreateLongLived({ tokens, states, maxTokens, clock, audit }: CreateLongLivedPorts) {
  return async function createLongLived(
    principal: Principal,
    device: string,
    kid: string,
  ): Promise<LongLivedGrant> {
    const { user } = principal;
    const name = parseLabel(device);
    if (!name.ok) {
      throw new AuthError('validation_failed', { errors: [{ path: '/device', message: name.message }] });
    }

    // Fails here when the fast store is away, before anything is written.
    const asOf = await states.now();
    const createdAt = clock.now();
    const tokenId = await tokens.addLongLived(user.id, { name: name.value, createdAt, kid }, maxTokens);
    if (tokenId === null) throw new AuthError('too_many_tokens');

    const record = { id: tokenId, userId: user.id, type: 'llt' as const, name: name.value, createdAt };
    await putCreated(states, { ...record, state: initialState(0, '') }, user, asOf);
    audit({ event: 'llt.created', userId: user.id, tokenId });
    return { userId: user.id, tokenId, createdAt };
  };
}

export type CreateLongLived = ReturnType<typeof makeCreateLongLived>;
