import type { PresentedIdentity } from '../domain/tokens/claims.ts';
import type { Bearer, Caller, Principal, ServicePrincipal, TokenKey } from '../domain/principal.ts';
import type { Source } from '../domain/audit/source.ts';
import type { ServiceIdentity } from '../domain/services/registered-service.ts';
import type { ErrorCode } from '../domain/errors.ts';
import type { RefusalReason } from '../domain/refusal-reasons.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** When the request's head was complete, by the monotonic clock in milliseconds. */
    receivedAt: number;
    /** The bearer token, once its signature and claims have been verified. */
    bearer: (Bearer & PresentedIdentity) | null;
    /** The token's owner, once its session was checked. */
    principal: Principal | null;
    /** The service whose own token was presented, once that was checked. */
    callingService: ServicePrincipal | null;
    /** The id of the service that acts for the user of an exchanged token; empty for none. */
    actor: string;
    /** The owner who requests a change, once the session was checked after the whole request had arrived. */
    caller: Caller | null;
    /** The registered service, once it has authenticated. */
    service: ServiceIdentity | null;
    /** Where it came from, for the audit trail: computed when it is read. */
    readonly source: Source;
    /** The session or LLT of a presented token that we signed, for the log; it may not be good. */
    presented: TokenKey | null;
    /** The code of the answer, for log and metrics. */
    errorCode: ErrorCode | null;
    /** More exactly than the code, why the request was refused or a token is inactive, for log and metrics. */
    refusalReason: RefusalReason | null;
    /** A keyed hash of whom or what a limit has refused, for the log. */
    limited: string | null;
    /** A registered service whose secret or right was refused, for the log. */
    refusedService: string | null;
    /** A stream has begun: for log and metrics, the request has ended (see request-context.ts). */
    isStreamed: boolean;
    /** The trace (W3C Trace Context): the caller's, or one of our own while tracing is on. For the log. */
    traceId: string | null;
    /** The request's span, while tracing is on. */
    spanId: string | null;
  }

  interface FastifyContextConfig {
    /** Errors also carry the members that OAuth clients read (oauth-error.ts). */
    oauthErrors?: boolean;
  }
}
