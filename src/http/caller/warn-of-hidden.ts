import type { FastifyRequest } from 'fastify';

/** What shows that the addresses of callers are hidden. Each watch decides how often it warns. */
const SIGNS = {
  relay: 'a relay forwards an address that does not count',
  fewAddresses: 'nearly all logins come from a few private addresses',
  privateAddress:
    'private addresses log in: RATE_LIMIT_NETWORK, RATE_LIMIT_SIGNUP_NETWORK and RATE_LIMIT_LLT_NETWORK do not count them',
};

/** The log's one warning that limits by address may count many users as one. */
export function warnOfHidden(request: FastifyRequest, sign: keyof typeof SIGNS, found: object = {}): void {
  request.log.warn(
    found,
    `${SIGNS[sign]}, so users may share one rate limit, and a retried refresh may be refused: list your proxies in ` +
      'TRUST_PROXY, have them send X-Forwarded-For and User-Agent, and keep the addresses of clients at the load ' +
      'balancer (externalTrafficPolicy: Local, or PROXY protocol; docs/operating.md, "Addresses behind proxies")',
  );
}
