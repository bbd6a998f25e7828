import type { Latchkey } from './latchkey.ts';
import { invalid } from './read-jwt.ts';
import type { VerifiedToken } from './verified-token.ts';
import { VerifierError } from './verifier-error.ts';

/**
 * Asks Latchkey whether a token is good right now. Concurrent calls for the same token share one request.
 * @throws VerifierError `invalid_token`, `unavailable`
 */
export type Introspect = (token: string, verified: VerifiedToken) => Promise<void>;

export function makeIntrospect({ introspect: ask }: Pick<Latchkey, 'introspect'>): Introspect {
  const asking = new Map<string, Promise<Record<string, unknown>>>();

  return async function introspect(token, { sid, claims, tokenType }) {
    const answer = asking.get(token) ?? ask(token).finally(() => asking.delete(token));
    asking.set(token, answer);
    const { active, ...said } = await answer;
    if (active === false) throw invalid('Latchkey says that it is not active');
    if (active !== true || said.sid !== sid || said.sub !== claims.sub || said.token_use !== tokenType)
      throw new VerifierError('unavailable', 'introspection returned a malformed answer');
  };
}
