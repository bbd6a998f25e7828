import type { FastifyRequest } from 'fastify';
import { addressOf, isHiddenByRelay, type Address } from './address.ts';

/** Keyed hash of an address and a User-Agent. */
export interface CallerHashes {
  /** Under the newest secret. */
  newest(address: Address['parts'], userAgent: string): string;
  /** Under every secret in use, the newest first. */
  each(address: Address['parts'], userAgent: string): string[];
}

/**
 * Fingerprint of the caller, for the retry window. If a peer that TRUST_PROXY does not list forwards an address, all
 * clients look like that peer. Then the fingerprint is empty, and no two requests count as the same client's. It is
 * also empty if the address cannot be read.
 */
export function makeCallerFingerprint(
  hashes: Pick<CallerHashes, 'newest'>,
  warnOfRelay: (request: FastifyRequest) => void,
) {
  return function callerFingerprint(request: FastifyRequest): string {
    if (isHiddenByRelay(request)) {
      warnOfRelay(request);
      return '';
    }
    const address = addressOf(request);
    return address ? hashes.newest(address.parts, userAgentOf(request)) : '';
  };
}

export type CallerFingerprint = ReturnType<typeof makeCallerFingerprint>;

/** The caller's fingerprints under every secret in use. An empty list if `callerFingerprint` returns ''. */
export function makeCallerFingerprints(hashes: Pick<CallerHashes, 'each'>) {
  return function callerFingerprints(request: FastifyRequest): string[] {
    const address = isHiddenByRelay(request) ? null : addressOf(request);
    return address ? hashes.each(address.parts, userAgentOf(request)) : [];
  };
}

export type CallerFingerprints = ReturnType<typeof makeCallerFingerprints>;

/** Not decoded (user-agent.ts): a hash must stay the same for the session that it was stored for. */
function userAgentOf({ headers }: FastifyRequest): string {
  return headers['user-agent'] ?? '';
}
