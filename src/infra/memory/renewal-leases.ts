import type { Lease } from '../../domain/tokens/lease.ts';
import type { RenewalLeases } from '../../domain/tokens/ports.ts';

/** Of the in-process store, which nobody else renews. */
export function makeMemoryRenewalLeases(): RenewalLeases {
  const server = 'this process';
  let lease: Lease | null = null;
  return {
    masters: () => [server],
    isThere: () => true,
    hasFeed: () => true,
    look: () => Promise.resolve({ server, lease }),
    move: (_master, _from, to) => Promise.resolve((lease = to)),
  };
}
