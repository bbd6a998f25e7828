import type { FastifyRequest } from 'fastify';

/** Keyed hash of an address and a User-Agent. */
export type HashClient = (address: string, userAgent: string) => string;

/**
 * Who asks, for the retry window. Where a forwarded address arrives from a peer that TRUST_PROXY does not list, all
 * clients look like that peer: the address means nothing, nobody is the same client as anybody, and it is empty.
 */
export function makeClientOf(hashClient: HashClient, warn: (request: FastifyRequest) => void) {
  let warned = false;
  return function clientOf(request: FastifyRequest): string {
    if (isForwardedByStranger(request)) {
      if (!warned) warn(request);
      warned = true;
      return '';
    }
    return hashClient(request.ip, request.headers['user-agent'] ?? '');
  };
}

export type ClientOf = ReturnType<typeof makeClientOf>;

/** With a trusted peer, Fastify lists it and whoever it speaks for. */
function isForwardedByStranger({ headers, ips }: FastifyRequest): boolean {
  if (headers['x-forwarded-for'] === undefined && headers.forwarded === undefined) return false;
  return (ips?.length ?? 1) <= 1;
}
