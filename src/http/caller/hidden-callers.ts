import type { BlockList } from 'node:net';
import type { FastifyBaseLogger, FastifyRequest } from 'fastify';
import { addressOf, callerAddress } from './address.ts';
import { isPrivate } from './private-addresses.ts';
import { isAllowed } from './network.ts';

/** Logins that are judged together. */
const SAMPLE = 200;
/** So many of them are nearly all. */
const NEARLY_ALL = 190;
/** At most so many addresses are the nodes or proxies of a balancer; clients of their own have more. */
const FEW = 16;

export interface HiddenCallersOptions {
  /** RATE_LIMIT_ALLOW: addresses without limits. They do not count here. */
  allow: BlockList;
  logger: Pick<FastifyBaseLogger, 'warn'>;
}

/**
 * Warns about a balancer that hides its clients' addresses, so that limits by address count all clients as one. It
 * warns again only after a sample without this pattern.
 * @returns a function that notes a login.
 */
export function makeHiddenCallers({ allow, logger }: HiddenCallersOptions) {
  const note = makeSampler((found) => {
    logger.warn(
      found,
      'nearly all logins come from a few private addresses, so limits by address count many users as one: keep the ' +
        "clients' addresses at the load balancer (externalTrafficPolicy: Local, or PROXY protocol), and list your " +
        'proxies in TRUST_PROXY (docs/operating.md, "Addresses behind proxies")',
    );
  });
  return function noteLogin(request: FastifyRequest): void {
    if (isAllowed(request, allow)) return;
    const address = addressOf(request);
    note(address && isPrivate(address) ? callerAddress(request) : null);
  };
}

interface Finding {
  /** Logins from private addresses, of 200. */
  privateLogins: number;
  privateAddresses: number;
}

/** @returns a function that notes a login's private address, or null for a public one. */
function makeSampler(report: (found: Finding) => void) {
  const addresses = new Set<string>();
  let logins = 0;
  let privateLogins = 0;
  let wasFound = false;
  return function note(address: string | null): void {
    logins++;
    if (address !== null) {
      privateLogins++;
      // One more than a few is enough to know: this bounds the memory.
      if (addresses.size <= FEW) addresses.add(address);
    }
    if (logins < SAMPLE) return;
    const isFound = privateLogins >= NEARLY_ALL && addresses.size <= FEW;
    if (isFound && !wasFound) report({ privateLogins, privateAddresses: addresses.size });
    wasFound = isFound;
    addresses.clear();
    logins = 0;
    privateLogins = 0;
  };
}

export type NoteLogin = ReturnType<typeof makeHiddenCallers>;
