import type { BlockList } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { addressOf, networkText, UNREADABLE } from './address.ts';
import { isPrivate } from './private-addresses.ts';
import { isAllowed } from '../plugins/rate-limit.ts';

export interface CallerNetworkOptions {
  /** RATE_LIMIT_ALLOW: addresses without limits. */
  allow: BlockList;
  /** Called once, if callers have private addresses, which are not counted. */
  warn: (request: FastifyRequest) => void;
}

/**
 * The network whose failed logins are counted together: the /24 of an IPv4 address, the /48 of an IPv6 address, which
 * is one site's. Null if they are not counted.
 */
export function makeNetworkOf({ allow, warn }: CallerNetworkOptions) {
  let warned = false;
  return function networkOf(request: FastifyRequest): string | null {
    if (isAllowed(request, allow)) return null;
    const address = addressOf(request);
    // A private address belongs to a proxy, a test or an office: all users may be behind it.
    if (address && isPrivate(address)) {
      if (!warned) warn(request);
      warned = true;
      return null;
    }
    // If an unlisted peer forwards an address, the peer's own counts: a header must not lift the limit from its sender.
    return address ? networkText(address, { ipv4: 3, ipv6: 3 }) : UNREADABLE;
  };
}

export type NetworkOf = ReturnType<typeof makeNetworkOf>;
