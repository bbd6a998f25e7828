import type { AuditLimit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError, type ErrorCode } from '../errors.ts';
import { UNOBSERVED, type Observe } from '../metrics/observe.ts';
import type { GuessLimit } from '../metrics/outcomes.ts';
import type { Allowance, AttemptSlots } from './ports.ts';

/** The origin of a guess, as the limits see it. */
export interface GuessOrigin {
  /** Fingerprints of the caller, one under each secret in use, the newest first; empty if its address is not known. */
  fingerprints: readonly string[];
  /** The refresh token or LLT in the request. We signed it, but it may have expired or ended. */
  token: { userId: number; tokenId: number; type: 'refresh' | 'llt' } | null;
  /** The /24 or /48 whose failures are counted together; null if they are not counted. */
  network: string | null;
}

export interface Guess {
  /**
   * The canonical name as presented: username and e-mail address of an account each have their own allowance. null for
   * a guess at no name, which counts for its network only.
   */
  name: string | null;
  /** The account of that name, and the fingerprints that have logged in to it; null if there is none. */
  account: { userId: number; knownClients: readonly string[] } | null;
  origin: GuessOrigin;
  from: Sourced;
}

/** Refusals before the password was compared. Any other failure may come after it, and counts as a wrong password. */
const NOT_TRIED: readonly ErrorCode[] = ['rate_limited', 'overloaded', 'unavailable', 'validation_failed'];

export interface GuessingLimitsPorts {
  slots: AttemptSlots;
  /** Keyed, so that the counters' keys reveal neither names nor addresses. */
  hash: (text: string) => string;
  /** RATE_LIMIT_ACCOUNT; null for none. */
  account: Allowance | null;
  /** RATE_LIMIT_NETWORK; null for none. */
  network: Allowance | null;
  observe?: Pick<Observe, 'rateLimited'>;
  auditLimit: AuditLimit;
  /** Keyed hash of a name, for the audit trail. */
  hashName: (name: string) => string;
}

/**
 * Limits how many passwords may be tried against one name and from one network. A guess takes its slots before the
 * password is hashed, and gives them back if the password was right or was not tried. A success resets nothing:
 * knowing one password must not buy more tries at another.
 *
 * A stranger that uses up a name's allowance must not lock its owner out. So a device that has logged in to the account
 * before has an allowance of its own, and is exempt from the limits for strangers.
 */
export function makeGuessingLimits(ports: GuessingLimitsPorts) {
  const { slots, hash, observe = UNOBSERVED } = ports;
  /** Guesses in flight on this replica, by the counter whose slot they hold. */
  const checking = new Map<string, number>();

  /**
   * The counters of which a guess needs a slot. The network comes first: a flood from one must not use up names' slots.
   */
  function countersOf({ name, account, origin }: Guess): [GuessLimit, string, Allowance | null][] {
    const device = account && deviceOf(account, origin);
    // By name, as for strangers: a shared counter would reveal that two names belong to one account.
    if (device !== null && name !== null) return [['device', `${device} ${name}`, ports.account]];
    return [
      ...(origin.network === null ? [] : [['network', origin.network, ports.network] as const]),
      ...(name === null ? [] : [['account', name, ports.account] as const]),
    ].map(([limit, text, allowance]) => [limit, text, allowance] as [GuessLimit, string, Allowance | null]);
  }

  function report(counter: string, limit: GuessLimit, { seconds }: Allowance, guess: Guess): void {
    const { name, account, origin, from } = guess;
    const nameHash = name === null ? {} : { nameHash: ports.hashName(name) };
    const subject = account ? { userId: account.userId } : nameHash;
    const key = limit === 'network' && origin.network !== null ? { network: origin.network } : subject;
    ports.auditLimit(counter, { event: 'limit.reached', limit, windowSeconds: seconds, ...key }, from);
  }

  /** @throws AuthError `rate_limited`, `unavailable` */
  async function reserve(guess: Guess, held: [counter: string, slot: string][]): Promise<void> {
    for (const [limit, text, allowance] of countersOf(guess)) {
      if (!allowance) continue;
      const counter = `${limit}:${hash(`${limit} ${text}`)}`;
      const reserved = await slots.reserve(counter, allowance);
      if (!('slot' in reserved)) {
        observe.rateLimited(limit);
        report(counter, limit, allowance, guess);
        // Guesses in flight may be right, and then give their slots back.
        const wait = checking.has(counter) ? 0 : reserved.freeIn;
        throw new AuthError('rate_limited', { retryAfter: Math.max(1, Math.ceil(wait / 1000)) });
      }
      held.push([counter, reserved.slot]);
      checking.set(counter, (checking.get(counter) ?? 0) + 1);
    }
  }

  function leave(counter: string): void {
    const left = (checking.get(counter) ?? 0) - 1;
    if (left > 0) checking.set(counter, left);
    else checking.delete(counter);
  }

  /** If the store is down, a slot becomes free when its window ends. */
  async function release(held: [counter: string, slot: string][]): Promise<void> {
    await Promise.all(held.map(([counter, slot]) => slots.release(counter, slot).catch(ignoreOutage)));
  }

  /**
   * Checks a password within the limits.
   * @throws AuthError `rate_limited`, `unavailable`, and the errors of the check
   */
  return async function limitGuess<Result>(guess: Guess, check: () => Promise<Result>): Promise<Result> {
    const held: [counter: string, slot: string][] = [];
    let wasTried = false;
    try {
      await reserve(guess, held);
      return await check();
    } catch (error) {
      wasTried = !(error instanceof AuthError && NOT_TRIED.includes(error.code));
      throw error;
    } finally {
      for (const [counter] of held) leave(counter);
      if (!wasTried) await release(held);
    }
  };
}

export type LimitGuess = ReturnType<typeof makeGuessingLimits>;

/**
 * The name of the device, if the account knows it. The token decides first, since several devices may share an address
 * and a User-Agent. Each session counts as a device: opening one takes the password. A session can create many
 * long-lived tokens without it, so all of an account's count as one device.
 */
function deviceOf(
  { userId, knownClients }: NonNullable<Guess['account']>,
  { token, fingerprints }: GuessOrigin,
): string | null {
  if (token?.userId === userId)
    return token.type === 'llt' ? `${userId} llt` : `${userId} session ${token.tokenId}`;
  const [newest] = fingerprints;
  const isKnown = fingerprints.some(
    (fingerprint) => fingerprint !== '' && knownClients.includes(fingerprint),
  );
  return isKnown && newest !== undefined ? `${userId} client ${newest}` : null;
}

function ignoreOutage(error: unknown): void {
  if (!(error instanceof AuthError && error.code === 'unavailable')) throw error;
}
