import type { RegisteredService } from '../domain/services/registered-service.ts';
import type { ServiceBearer } from '../domain/principal.ts';
import type { BearerRefusal } from '../domain/refusal-reasons.ts';
import { callRight } from '../domain/rights.ts';
import { hasExpired } from '../domain/tokens/claims.ts';
import { isAway, type Away } from './away.ts';

export interface ServiceTokenFacts {
  bearer: ServiceBearer;
  /** Milliseconds since 1970. */
  now: number;
  /** ISSUER. */
  issuer: string;
  /** Every registered one. */
  services: readonly RegisteredService[] | Away;
}

/** What a service token's client says of it. */
export interface ServiceVerdict {
  /** null if it is good; `unknown` if PostgreSQL is away. */
  reason: Extract<BearerRefusal, 'expired' | 'gone' | 'disabled' | 'revoked' | 'right'> | 'unknown' | null;
  /** As `explain` shows it. */
  client: { id: string; name: string | null };
  /** Sentences. */
  facts: string[];
  to_do: string;
}

/** Why a service token with a good signature is good or refused, by its client as it is now. */
export function judgeServiceToken(given: ServiceTokenFacts): ServiceVerdict {
  const { bearer, services } = given;
  const service = isAway(services)
    ? undefined
    : services.find(({ serviceId }) => serviceId === bearer.serviceId);
  const reason = refusalOf(given, service);
  const name = service?.name ?? null;
  const facts = [`It is a service token of client ${name ?? bearer.serviceId} for ${bearer.audience}.`];
  if (isAway(services)) facts.push('PostgreSQL does not answer.');
  else if (service && service.version !== bearer.version)
    facts.push(`It has version ${bearer.version} of its client, whose version is ${service.version} now.`);
  const names = { service: name ?? 'NAME', audience: bearer.audience };
  return { reason, client: { id: bearer.serviceId, name }, facts, to_do: toDo(reason, names) };
}

/** In the order of the checks. That the audience is still registered is none: verify does not ask it either. */
function refusalOf(
  { bearer, now, issuer, services }: ServiceTokenFacts,
  service: RegisteredService | undefined,
): ServiceVerdict['reason'] {
  const { audience, version } = bearer;
  if (hasExpired(bearer, now)) return 'expired';
  if (isAway(services)) return 'unknown';
  if (!service) return 'gone';
  if (service.disabledAt !== null) return 'disabled';
  if (service.version !== version) return 'revoked';
  return audience === issuer || service.rights.includes(callRight(audience)) ? null : 'right';
}

function toDo(
  reason: ServiceVerdict['reason'],
  { service, audience }: { service: string; audience: string },
): string {
  switch (reason) {
    case null:
      return `Nothing: the token is good at ${audience}. If it is refused there, compare the audience and the issuer.`;
    case 'expired':
      return 'The client gets a new token from POST /api/auth/token.';
    case 'gone':
      return 'The client was deleted: its tokens stay ended.';
    case 'disabled':
      return `An operator may enable the client: latchkey client enable ${service}. It then gets a new token.`;
    case 'revoked':
      return 'The tokens of the client were ended by latchkey client end-tokens or disable: it gets a new token.';
    case 'right':
      return `The client lacks the right call:${audience} now: latchkey client allow ${service} RIGHTS sets all of its rights.`;
    case 'unknown':
      return 'Ask again when PostgreSQL answers.';
  }
}
