import type { BlockList } from 'node:net';
import type { FastifyRequest } from 'fastify';
import type { Config } from '../../config/config.ts';
import type { Turn } from '../../domain/passwords/bulkhead.ts';
import { addressOf, callerAddress, isLocal, isPrivate, networkText, UNREADABLE } from './address.ts';
import { warnOfHidden } from './warn-of-hidden.ts';

type NetworkLimits = 'RATE_LIMIT_NETWORK' | 'RATE_LIMIT_SIGNUP_NETWORK' | 'RATE_LIMIT_LLT_NETWORK';

/**
 * The network whose failed logins, signups, requests for a reset and long-lived tokens are counted together; null if
 * they are not counted. Warns once of callers with private addresses, which are not counted. Outside production, a caller
 * on this host is a developer, and no proxy.
 */
export function makeNetworkOf(config: Pick<Config, NetworkLimits | 'RATE_LIMIT_ALLOW' | 'production'>) {
  const limits = [config.RATE_LIMIT_NETWORK, config.RATE_LIMIT_SIGNUP_NETWORK, config.RATE_LIMIT_LLT_NETWORK];
  const isCounted = limits.some((limit) => limit !== null);
  let warned = false;
  return function networkOf(request: FastifyRequest): string | null {
    if (!isCounted || isAllowed(request, config.RATE_LIMIT_ALLOW)) return null;
    const network = publicNetwork(request);
    if (network === null && !warned && (config.production || !isLocal(request))) {
      warnOfHidden(request, 'privateAddress');
      warned = true;
    }
    return network;
  };
}

export type NetworkOf = ReturnType<typeof makeNetworkOf>;

/** Whether RATE_LIMIT_ALLOW lists the caller. */
export function isAllowed(request: FastifyRequest, allow: BlockList): boolean {
  const address = addressOf(request);
  return address !== null && allow.check(address.text, address.family);
}

/**
 * The /24 of an IPv4 address, the /48 of an IPv6 address, which is one site's. Null for a private address, which belongs
 * to a proxy, a test or an office: all users may be behind it.
 */
export function publicNetwork(request: FastifyRequest): string | null {
  const address = addressOf(request);
  if (address && isPrivate(address)) return null;
  // If an unlisted peer forwards an address, the peer's own counts: a header must not lift the limit from its sender.
  return address ? networkText(address, { ipv4: 3, ipv6: 3 }) : UNREADABLE;
}

/** A private address is a network of its own. */
export function callerTurn(request: FastifyRequest): Turn {
  const address = callerAddress(request);
  return [publicNetwork(request) ?? address, address];
}
