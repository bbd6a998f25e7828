import type { Sourced } from '../audit/source.ts';
import type { Observe } from '../metrics/observe.ts';
import type { Bearer, ExchangedBearer, Principal, ServiceBearer, ServicePrincipal } from '../principal.ts';
import type { ServiceTokens } from './service-tokens.ts';
import type { BearerRefusal } from '../refusal-reasons.ts';
import { refusalOf, type Verify } from './verify.ts';

interface IntrospectPorts {
  verify: Verify;
  serviceTokens: Pick<ServiceTokens, 'verify'>;
  observe: Pick<Observe, 'introspection'>;
}

/**
 * Tells another service whether a token that it received is good (RFC 7662). This counts as a use of the token, like
 * any other: that of an access token confirms its pair. It queries the record only if the fast store lacks the state.
 * @param bearer the reason if we did not sign the token, it has expired, or this service may not learn of it.
 * @returns the reason if the token is not good now.
 * @throws AuthError `unavailable`
 */
export function makeIntrospect({ verify, serviceTokens, observe }: IntrospectPorts) {
  const check = (bearer: Bearer | ExchangedBearer | ServiceBearer, from: Sourced) =>
    bearer.type === 'service' ? serviceTokens.verify(bearer) : verify(bearer, from);

  return async function introspect(
    bearer: Bearer | ExchangedBearer | ServiceBearer | BearerRefusal,
    from: Sourced,
  ): Promise<Principal | ServicePrincipal | BearerRefusal> {
    try {
      const answer = typeof bearer === 'string' ? bearer : await check(bearer, from);
      observe.introspection(typeof answer === 'string' ? 'inactive' : 'active');
      return answer;
    } catch (error) {
      const reason = refusalOf(error);
      observe.introspection(reason ? 'inactive' : 'unavailable');
      if (reason) return reason;
      throw error;
    }
  };
}

export type Introspect = ReturnType<typeof makeIntrospect>;
