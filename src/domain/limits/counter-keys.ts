import type { RATE_LIMITS, SlotLimit } from '../refusal-reasons.ts';
import type { Allowance } from './ports.ts';

type LimitInRedis = Exclude<(typeof RATE_LIMITS)[number], 'mails' | 'lane'>;

/**
 * By what each limit counts. A caller who can renew the key of a counter gets new tries, and a new key in Redis, each
 * time. So a counter is one of these, and a new limit does not compile until it says which:
 *
 * - `network`, `account`: roots, which a caller has few of.
 * - `name`, `device`: may stand alone, because each slot costs a hash of a password, whatever a device costs.
 * - `within`: what a caller makes anew, such as a version of the password or a set-up. It counts only beside that root,
 *   whose window is as long.
 * - `address`: the exception. A /48 has 65,536 of them, but one total for a network would let neighbours lock out known
 *   devices, which its other counters exempt. Memory is what bounds them (SHED_REDIS_MEMORY), and the minute they last.
 */
export const COUNTED_BY = {
  login: 'address',
  signup: 'address',
  network: 'network',
  signup_network: 'network',
  reset_network: 'network',
  reset_account: 'account',
  llt_network: 'network',
  llt_budget: 'account',
  profile_budget: 'account',
  passkey_budget: 'account',
  account: 'name',
  device: 'device',
  factor: { within: 'factor_total' },
  factor_device: { within: 'factor_total' },
  factor_total: 'account',
  factor_setup: { within: 'factor_setup_total' },
  factor_setup_total: 'account',
} as const satisfies Record<
  LimitInRedis,
  'address' | 'network' | 'account' | 'name' | 'device' | { within: SlotLimit }
>;

type CountedBy = typeof COUNTED_BY;

/** The limits that count by this. */
export type LimitBy<Key> = {
  [Limit in LimitInRedis]: CountedBy[Limit] extends Key ? Limit : never;
}[LimitInRedis];
type Renewed = { within: SlotLimit };

/** How often an account's allowance begins anew, with a new key, before all its tries count together. */
const RENEWALS = 5;

// Exists in types only: nothing outside this file can make a counter.
declare const made: unique symbol;

/** What is counted, and who is named in the audit trail when all its slots are taken. */
export interface Counter<Key = 'network' | 'account' | 'name' | 'device' | Renewed> {
  readonly limit: LimitBy<Key>;
  readonly key: string & { readonly [made]: Key };
  /** null if it is not limited. */
  readonly allowance: Allowance | null;
  readonly subject: { userId?: number; nameHash?: string; network?: string };
}

/** A counter that a caller renews, and the root that bounds it. */
type Bounded = readonly [Counter<Renewed>, Counter<'account'>] & { readonly [made]: 'bounded' };

/** What an attempt may count by. */
export type Counted = Counter<'network'> | Counter<'account'> | Counter<'name'> | Counter<'device'> | Bounded;

/** @param network a /24 or /48 */
export function byNetwork(
  limit: LimitBy<'network'>,
  network: string,
  allowance: Allowance | null,
): Counter<'network'> {
  return { limit, key: network as Counter<'network'>['key'], allowance, subject: { network } };
}

export function byAccount(
  limit: LimitBy<'account'>,
  userId: number,
  allowance: Allowance | null,
): Counter<'account'> {
  return { limit, key: String(userId) as Counter<'account'>['key'], allowance, subject: { userId } };
}

/** @param name canonical; the subject says whose it is. */
export function byName(
  name: string,
  { allowance, subject }: Pick<Counter, 'allowance' | 'subject'>,
): Counter<'name'> {
  return { limit: 'account', key: name as Counter<'name'>['key'], allowance, subject };
}

/** @param device of `deviceOf`; each name has slots of its own. */
export function byDevice(
  device: string,
  name: string,
  { allowance, subject }: Pick<Counter, 'allowance' | 'subject'>,
): Counter<'device'> {
  return { limit: 'device', key: `${device} ${name}` as Counter<'device'>['key'], allowance, subject };
}

/**
 * Counts by something that the account's caller makes anew, and beside it for the account in all, with as many slots as
 * some renewals would bring. The own counter comes first: a caller who has used it up must hold no slot of the account.
 */
export function byRenewed(
  limit: LimitBy<Renewed>,
  key: string,
  userId: number,
  allowance: Allowance | null,
): Bounded {
  const own: Counter<Renewed> = {
    limit,
    key: key as Counter<Renewed>['key'],
    allowance,
    subject: { userId },
  };
  const total = allowance && { ...allowance, count: RENEWALS * allowance.count };
  return [own, byAccount(COUNTED_BY[limit].within, userId, total)] as const as Bounded;
}
