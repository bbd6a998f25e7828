import type { Acr, TokenKey } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { ignoreOutage } from '../errors.ts';
import type { PasswordProof } from '../factors/login-token.ts';
import { isNewDevice, type GuessOrigin } from '../passwords/guessing-limits.ts';
import type { FactorProof, RevocationStore, TokenStore } from '../tokens/ports.ts';
import { putCreated } from '../tokens/put-created.ts';
import type { Lifetimes } from '../tokens/claims.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import { initialState, openedAt } from './rotation.ts';
import type { SessionGrant } from './session.ts';

interface OpenSessionPorts {
  tokens: Pick<TokenStore, 'addSession'>;
  revocations: Pick<RevocationStore, 'settle'>;
  tokenStates: Pick<TokenStateStore, 'preparePut' | 'put' | 'revoke'>;
  lifetimes: Lifetimes;
  /** MAX_SESSIONS_PER_USER. */
  maxSessions: number;
  audit: Audit;
}

/** A login whose proofs were right when they were checked. */
interface ProvenLogin {
  /**
   * With a passkey, as it was when the passkey's record was read, so that a changed password or a disabled
   * account refuses the login.
   */
  password: Omit<PasswordProof, 'issuedAt'>;
  /** null if the password alone was checked. */
  factor: FactorProof | null;
  device: string;
  /** Keyed hash of address and User-Agent. */
  caller: string;
  /** The same under every secret, and the token that the device had before. */
  origin: Pick<GuessOrigin, 'fingerprints' | 'token'>;
  from: Sourced;
}

/** Opens the session of a login, after its first or its second step, or of one with a passkey. */
export function makeOpenSession(ports: OpenSessionPorts) {
  const { tokens, tokenStates, lifetimes, maxSessions, audit } = ports;

  /**
   * @returns null if the account was deleted or disabled meanwhile.
   * @throws AuthError `unavailable`, and those of `TokenStore.addSession`
   */
  return async function openSession(login: ProvenLogin): Promise<SessionGrant | null> {
    const { device, caller, origin, from, factor } = login;
    const { userId, passwordVersion, enabledAt } = login.password;
    // Fails here if the fast store is down, before anything is written.
    const generation = await tokenStates.preparePut(userId);
    const createdAt = openedAt(generation);
    const state = initialState(generation, caller);
    const conditions = {
      limit: maxSessions,
      liveSince: generation - lifetimes.refreshToken * 1_000_000,
      createdSince: lifetimes.session === 0 ? 0 : createdAt - lifetimes.session * 1000,
      passwordVersion,
      enabledAt,
      proof: factor,
      isNewTo: (knownCallers: readonly string[]) => isNewDevice({ userId, knownCallers }, origin),
    };
    const added = await tokens.addSession(userId, { name: device, createdAt, state }, conditions);
    if (!added) return null;
    for (const tokenId of added.replaced) {
      await finishReplacement(ports, { userId, tokenId });
      audit({ event: 'session.replaced', userId, tokenId, by: added.id }, from);
    }

    const record = { id: added.id, userId, type: 'session' as const, name: device, createdAt, state };
    await putCreated(tokenStates, record, added.user, generation);
    const method = factor && { method: factor.type };
    audit({ event: 'session.created', userId, tokenId: added.id, ...method }, from);
    return { user: added.user, tokenId: added.id, generation, createdAt, acr: acrOf(factor) };
  };
}

export type OpenSession = ReturnType<typeof makeOpenSession>;

function acrOf(factor: FactorProof | null): Acr | null {
  if (factor === null) return null;
  return factor.type === 'passkey' ? 'phr' : 'mfa';
}

/** The replaced session is already revoked and pending on record: if this fails, the next sweep finishes it. */
async function finishReplacement(
  { tokenStates, revocations }: OpenSessionPorts,
  key: TokenKey,
): Promise<void> {
  try {
    await tokenStates.revoke(key);
    await revocations.settle([key.tokenId]);
  } catch (error) {
    ignoreOutage(error);
  }
}
