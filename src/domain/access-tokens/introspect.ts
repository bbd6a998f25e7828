import { AuthError } from '../errors.ts';
import { UNOBSERVED, type Observe } from '../metrics/observe.ts';
import type { Bearer, Principal } from './principal.ts';
import type { Verify } from './verify.ts';

interface IntrospectPorts {
  verify: Verify;
  observe?: Pick<Observe, 'introspection'>;
}

/**
 * What another service asks about a token that was presented to it (RFC 7662). That is a use of the token, and goes the way
 * of every use: its pair is confirmed, and PostgreSQL is not asked.
 * @param bearer null where the token is not even signed by us, or expired, or no token for a resource.
 * @returns null where it is not good right now, whatever the reason.
 * @throws AuthError `unavailable`
 */
export function makeIntrospect({ verify, observe = UNOBSERVED }: IntrospectPorts) {
  return async function introspect(bearer: Bearer | null): Promise<Principal | null> {
    // The safe answer falls through.
    let principal: Principal | null = null;
    try {
      if (bearer) principal = await verify(bearer);
    } catch (error) {
      if (!(error instanceof AuthError && error.code === 'invalid_token')) {
        observe.introspection('unavailable');
        throw error;
      }
    }
    observe.introspection(principal ? 'active' : 'inactive');
    return principal;
  };
}

export type Introspect = ReturnType<typeof makeIntrospect>;
