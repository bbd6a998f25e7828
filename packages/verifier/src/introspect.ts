import type { Latchkey } from './latchkey.ts';
import { readEmailVerified, readRoles, type AnyToken, type UserToken } from './verified-token.ts';
import { invalid, unavailable } from './verifier-error.ts';

/** What Latchkey says of a token's user. Of a service only the roles count: it has no address. */
export type Present = Pick<UserToken, 'roles' | 'emailVerified'>;

/**
 * Asks Latchkey whether a token is good right now. Concurrent calls for the same token share one request.
 * @returns the present state of the user or service.
 * @throws VerifierError `invalid_token`, `unavailable`
 */
export type Introspect = (token: string, verified: AnyToken) => Promise<Present>;

/**
 * @param changes how many changes of users and clients, and snapshots, are known so far: a request from before one does
 * not answer a call from after it.
 */
export function makeIntrospect(
  { introspect: ask }: Pick<Latchkey, 'introspect'>,
  changes: () => number,
): Introspect {
  const asking = new Map<string, Promise<Record<string, unknown>>>();

  return async function introspect(token, { claims, tokenType }) {
    const key = `${changes()} ${token}`;
    const answer = asking.get(key) ?? ask(token, tokenType === 'limited').finally(() => asking.delete(key));
    asking.set(key, answer);
    const { active, ...said } = await answer;
    if (active === false) throw invalid('inactive', 'Latchkey says that it is not active');
    // Neither a service's token nor the answer about one has a `sid`.
    const sid = 'sid' in claims ? claims.sid : undefined;
    const isOfToken = said.sid === sid && said.sub === claims.sub && said.token_use === tokenType;
    const [roles, emailVerified] = [readRoles(said.roles), readEmailVerified(said.email_verified)];
    if (active !== true || !isOfToken || !roles || emailVerified === null)
      throw unavailable('unexpected_answer', 'introspection returned a malformed answer');
    return { roles, emailVerified };
  };
}
