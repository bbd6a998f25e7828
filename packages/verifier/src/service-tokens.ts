import type { FeedMessage } from './feed-message.ts';
import type { Introspect } from './introspect.ts';
import type { ServiceToken } from './verified-token.ts';

/**
 * A service's token is good only with the present version of its client. The feed lists these versions. The verifier
 * asks Latchkey about a token that the list does not decide, once for each list.
 */
export interface ServiceTokens {
  /** Call this for every new connection: its list of clients has yet to arrive. */
  connected(): void;
  learn(message: FeedMessage): void;
  /** Whether the feed has listed a later version of its client. */
  hasEnded(verified: ServiceToken): boolean;
  /**
   * The roles of a token that is good by the list, or was found good since the list arrived; null otherwise.
   * @param isStale whether the list of an earlier connection will do
   */
  known(verified: ServiceToken, isStale: boolean): readonly string[] | null;
  /** @returns the client's present roles. @throws VerifierError `invalid_token`, `unavailable` */
  ask(token: string, verified: ServiceToken): Promise<readonly string[]>;
}

/** The most answers to keep. Few are needed: the next list decides about their tokens. */
const SIZE = 1000;

export function makeServiceTokens({ introspect }: { introspect: Introspect }): ServiceTokens {
  let versions: ReadonlyMap<string, number> = new Map();
  let isListed = false;
  /** Latchkey's answers since the list arrived, by `jti`, the oldest first. */
  let answers = new Map<string, readonly string[]>();

  return {
    connected() {
      isListed = false;
      answers = new Map();
    },
    learn(message) {
      if (message.type !== 'clients') return;
      // A replica may be behind the one before, and no version ever falls.
      const known = versions;
      versions = new Map([...message.versions].map(([id, at]) => [id, Math.max(at, known.get(id) ?? at)]));
      isListed = true;
      answers = new Map();
    },
    hasEnded: ({ clientId, claims }) => claims.client_version < (versions.get(clientId) ?? 0),
    known({ clientId, claims, roles }, isStale) {
      if (!isListed && !isStale) return null;
      return claims.client_version === versions.get(clientId) ? roles : (answers.get(claims.jti) ?? null);
    },
    async ask(token, verified) {
      // A later list has other answers.
      const current = answers;
      const { roles } = await introspect(token, verified);
      current.set(verified.claims.jti, roles);
      const [oldest] = current.keys();
      if (current.size > SIZE && oldest !== undefined) current.delete(oldest);
      return roles;
    },
  };
}
