import type { BlockList } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { addressOf, callerAddress, isPrivate } from './address.ts';
import { isAllowed } from './network.ts';
import { warnOfHidden } from './warn-of-hidden.ts';

/** Logins that are judged together. */
const SAMPLE = 200;
/** So many of them are nearly all. */
const NEARLY_ALL = 190;
/** At most so many addresses are the nodes or proxies of a balancer; clients of their own have more. */
const FEW = 16;

/**
 * Warns about a balancer that hides its clients' addresses, so that limits by address count all clients as one. It
 * warns again only after a sample without this pattern.
 * @param allow RATE_LIMIT_ALLOW: addresses without limits. They do not count here.
 * @returns a function that notes a login.
 */
export function makeHiddenCallers(allow: BlockList) {
  const note = makeSampler();
  return function noteLogin(request: FastifyRequest): void {
    if (isAllowed(request, allow)) return;
    const address = addressOf(request);
    const found = note(address && isPrivate(address) ? callerAddress(request) : null);
    if (found) warnOfHidden(request, 'fewAddresses', found);
  };
}

interface Finding {
  /** Logins from private addresses, of 200. */
  privateLogins: number;
  privateAddresses: number;
}

/** @returns a function that notes a login's private address, or null for a public one, and says what a sample shows. */
function makeSampler() {
  const addresses = new Set<string>();
  let logins = 0;
  let privateLogins = 0;
  let wasFound = false;
  return function note(address: string | null): Finding | null {
    logins++;
    if (address !== null) {
      privateLogins++;
      // One more than a few is enough to know: this bounds the memory.
      if (addresses.size <= FEW) addresses.add(address);
    }
    if (logins < SAMPLE) return null;
    const isFound = privateLogins >= NEARLY_ALL && addresses.size <= FEW;
    const finding = isFound && !wasFound ? { privateLogins, privateAddresses: addresses.size } : null;
    wasFound = isFound;
    addresses.clear();
    logins = 0;
    privateLogins = 0;
    return finding;
  };
}

export type NoteLogin = ReturnType<typeof makeHiddenCallers>;
