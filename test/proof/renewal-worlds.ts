import { realLeases, weakenedLeases, type LeaseRule, type RenewalWorld } from './renewal.ts';

/** A world in which every end is known within the bound. */
export interface RenewalClaim {
  name: string;
  world: RenewalWorld;
  /** Too large for `npm test`. */
  large?: true;
}

export const RENEWAL_CLAIMS: readonly RenewalClaim[] = [
  { name: 'any fault', world: { faults: 1 } },
  { name: 'renewals that read late', world: { faults: 0, slow: true } },
  { name: 'a proxy swaps the servers twice', world: { faults: 2, only: ['swap'] }, large: true },
  { name: 'any two faults', world: { faults: 2 }, large: true },
  { name: 'renewals that read late, any fault', world: { faults: 1, slow: true }, large: true },
];

/** A mistake in the text of lease.ts or in its use, and a smallest world in which an end stays unknown. */
export interface RenewalWeakening {
  name: string;
  world: RenewalWorld;
  /** What to replace in the text, and with what. */
  text?: readonly [find: string, replace: string];
}

const FAILOVER: RenewalWorld = { faults: 1, only: ['failover'] };
const SWAPS: RenewalWorld = { faults: 2, only: ['swap'] };
const LATE: RenewalWorld = { faults: 0, slow: true };
const IDENTITY = 'tenure?.server === server && lease?.server === server';

export const RENEWAL_WEAKENINGS: readonly RenewalWeakening[] = [
  { name: 'one lease for all masters', world: { faults: 0, oneLease: true } },
  { name: 'no identity', world: FAILOVER, text: [IDENTITY, 'tenure'] },
  {
    name: "the identity of the lease's server alone",
    world: SWAPS,
    text: [IDENTITY, 'tenure && lease?.server === server'],
  },
  { name: "expiry by the server's clock", world: { ...FAILOVER, expiry: true } },
  {
    name: 'nobody takes over',
    world: FAILOVER,
    text: ['Math.max(0, movedAt + SILENCE - now)', 'SILENCE'],
  },
  {
    name: 'who takes over trusts that all was renewed until it looked',
    world: { faults: 1, only: ['route'] },
    text: [
      'tenure: lease?.replica === self ? watch.tenure : null',
      'tenure: lease?.replica === self ? watch.tenure : { since: now, until: now, server: lease?.server }',
    ],
  },
  { name: 'no overlap', world: LATE, text: ['tenure.until - OVERLAP', 'tenure.until'] },
  { name: 'a gap after a late reading', world: LATE, text: ['delay > LATE', 'false'] },
];

export const ruleOf = async ({ text }: RenewalWeakening): Promise<LeaseRule> =>
  text ? await weakenedLeases(...text) : realLeases;
