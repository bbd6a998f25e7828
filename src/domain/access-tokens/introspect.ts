import type { Sourced } from '../audit/source.ts';
import { AuthError } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { Bearer, ExchangedBearer, Principal } from '../principal.ts';
import type { Verify } from './verify.ts';

interface IntrospectPorts {
  verify: Verify;
  observe: Pick<Observe, 'introspection'>;
}

/**
 * Tells another service whether a token that it received is good (RFC 7662). This counts as a use of the token, like
 * any other: that of an access token confirms its pair. It does not query the record.
 * @param bearer null if we did not sign the token, it has expired, or it is not for this service.
 * @returns null if the token is not good now, for any reason.
 * @throws AuthError `unavailable`
 */
export function makeIntrospect({ verify, observe }: IntrospectPorts) {
  return async function introspect(
    bearer: Bearer | ExchangedBearer | null,
    from: Sourced,
  ): Promise<Principal | null> {
    // Inactive unless the check below succeeds.
    let principal: Principal | null = null;
    try {
      if (bearer) principal = await verify(bearer, from);
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
