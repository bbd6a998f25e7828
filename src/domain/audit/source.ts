/** Where a request came from, as the audit trail names it. */
export interface Source {
  /** The caller's address, behind the proxies that TRUST_PROXY lists; null if it cannot be read. */
  address: string | null;
  /** At most 256 characters, without control characters; null if the caller sent none. */
  userAgent: string | null;
  requestId: string | null;
  /** The registered service that sent the request; null for any other caller. */
  serviceId: string | null;
}

/**
 * A request that can tell its source. It does so only when an event is written: a successful refresh or verify computes
 * nothing for the audit trail.
 */
export interface Sourced {
  readonly source: Source;
}

/** For commands and background work: no request caused the event. */
export const NO_REQUEST: Sourced = {
  source: { address: null, userAgent: null, requestId: null, serviceId: null },
};
