import type { Sourced } from '../audit/source.ts';
import { AuthError, type ErrorCode } from '../errors.ts';
import { byDevice, byName, byNetwork, type Counted } from '../limits/counter-keys.ts';
import type { Failure, LimitAttempt } from '../limits/limit-attempts.ts';
import type { Allowance } from '../limits/ports.ts';

interface OriginToken {
  userId: number;
  tokenId: number;
  type: 'refresh' | 'llt';
  /** Whether the login that opened its session took a second factor. */
  withFactor: boolean;
}

/** The origin of a guess, as the limits see it. */
export interface GuessOrigin {
  /** Fingerprints of the caller, one under each secret in use, the newest first; empty if its address is not known. */
  fingerprints: readonly string[];
  /** The refresh token or LLT in the request. We signed it, but it may have expired or ended. */
  token: OriginToken | null;
  /** The /24 or /48 whose failures are counted together; null if they are not counted. */
  network: string | null;
}

/** An account, and the fingerprints that have logged in to it. */
export interface KnownAccount {
  userId: number;
  knownCallers: readonly string[];
}

export interface Guess {
  /**
   * The canonical name as presented: username and e-mail address of an account each have their own allowance. null for
   * a guess at no name, which counts for its network only.
   */
  name: string | null;
  /** The account of that name; null if there is none. */
  account: KnownAccount | null;
  origin: GuessOrigin;
  from: Sourced;
  /** What a wrong one leaves in the audit trail. */
  failure: Failure['event'];
  /** Without slots: a guess that cannot be right, or one whose right password has been compared already. */
  takesNoSlot?: true;
}

/** Refusals before the password was compared, or because it has changed since. */
const NOT_TRIED: readonly ErrorCode[] = [
  ...(['rate_limited', 'overloaded', 'unavailable', 'validation_failed', 'invalid_login_token'] as const),
];

interface GuessingLimitsPorts {
  limitAttempt: LimitAttempt;
  /** RATE_LIMIT_ACCOUNT; null for none. */
  account: Allowance | null;
  /** RATE_LIMIT_NETWORK; null for none. */
  network: Allowance | null;
  /** Keyed hash of a name, for the audit trail. */
  auditHash: (name: string) => string;
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
  /**
   * The counters of which a guess needs a slot. The network comes first: a flood from one must not use up names' slots.
   */
  function countersOf({ name, account, origin: { network } }: Guess, device: string | null): Counted[] {
    const nameHash = name === null ? {} : { nameHash: ports.auditHash(name) };
    const ofName = { allowance: ports.account, subject: account ? { userId: account.userId } : nameHash };
    // By name, as for strangers: a shared counter would reveal that two names belong to one account.
    if (device !== null && name !== null) return [byDevice(device, name, ofName)];
    const counters: Counted[] = [];
    if (network !== null) counters.push(byNetwork('network', network, ports.network));
    if (name !== null) counters.push(byName(name, ofName));
    return counters;
  }

  /**
   * Checks a password within the limits.
   * @param check hears whether the account knows the device, and how many tries at the name were wrong lately.
   * @throws AuthError `rate_limited`, `unavailable`, and the errors of the check
   */
  return function limitGuess<Result>(
    guess: Guess,
    check: (isKnown: boolean, earlier: number) => Promise<Result>,
  ): Promise<Result> {
    const device = guess.account && deviceOf(guess.account, guess.origin);
    const counters = guess.takesNoSlot ? [] : countersOf(guess, device);
    const failure = { event: guess.failure, network: guess.origin.network };
    return ports.limitAttempt({ counters, from: guess.from, counts: isWrong, failure }, (earlier) =>
      check(device !== null, earlier),
    );
  };
}

/** An error that is no refusal of ours may come after the comparison: it counts as a wrong password. */
function isWrong(error: unknown): boolean {
  return error !== null && !(error instanceof AuthError && NOT_TRIED.includes(error.code));
}

export type LimitGuess = ReturnType<typeof makeGuessingLimits>;

/**
 * The name of the device, if the account knows it. The token decides first, since several devices may share an address
 * and a User-Agent. Each session counts as a device: opening one takes the password. A session can create many
 * long-lived tokens without it, so all of an account's count as one device.
 */
export function deviceOf(
  { userId, knownCallers }: KnownAccount,
  { token, fingerprints }: Pick<GuessOrigin, 'token' | 'fingerprints'>,
): string | null {
  if (token?.userId === userId)
    return token.type === 'llt' ? `${userId} llt` : `${userId} session ${token.tokenId}`;
  const [newest] = fingerprints;
  const isKnown = fingerprints.some(
    (fingerprint) => fingerprint !== '' && knownCallers.includes(fingerprint),
  );
  return isKnown && newest !== undefined ? `${userId} client ${newest}` : null;
}

/**
 * Whether a login is from a device that is new to an account which knows others. A caller without a fingerprint is new
 * too: whoever hides behind a forwarded address must not log in unseen. A long-lived token tells nothing of a device.
 */
export function isNewDevice(
  account: KnownAccount,
  { token, fingerprints }: Pick<GuessOrigin, 'token' | 'fingerprints'>,
): boolean {
  const ofSession = token?.type === 'refresh' ? token : null;
  return account.knownCallers.length > 0 && deviceOf(account, { token: ofSession, fingerprints }) === null;
}
