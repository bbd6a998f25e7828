import type { Bulkhead } from './bulkhead.ts';
import type { IsCommonPassword } from './policy.ts';

/** Hashes passwords. Slow by design; always called through the bulkhead. */
export interface PasswordHasher {
  /** The cost of new hashes. */
  readonly cost: HashCost;
  /** @returns the encoded hash with its parameters and salt. */
  hash(password: string): Promise<Uint8Array>;
  /**
   * Compares a password with a stored hash: one of `hash`, or the text of another system's.
   * @param password as it was sent, or normalised.
   * @param earlier how many tries at the account were wrong lately. With another system's hash, each try compares one of
   * the texts that the system may have made of the password, in turn.
   * @throws Error if the parameters of the stored hash exceed the limits.
   */
  verify(hash: Uint8Array, password: string, earlier?: number): Promise<boolean>;
  /** The cost of `verify` with this stored hash; null if its parameters exceed the limits. */
  costOf(hash: Uint8Array): HashCost | null;
  /** Does the work of `verify` with a hash of this cost, and nothing else. */
  imitate(cost: HashCost, password: string): Promise<void>;
  /**
   * The costs to imitate so that a failure has done the work of `all`.
   * @param done the cost that has been computed already.
   */
  toImitate(all: readonly HashCost[], done: HashCost | null): HashCost[];
  /** Whether the password that this hash matched should be hashed anew, with today's algorithm and parameters. */
  isOutdated(hash: Uint8Array, password: string): boolean;
}

/** What a use case needs to take a new password. */
export interface NewPasswordPorts {
  hasher: Pick<PasswordHasher, 'hash'>;
  bulkhead: Pick<Bulkhead, 'run'>;
  isCommonPassword: IsCommonPassword;
  /** PASSWORD_MIN_LENGTH, in code points. */
  passwordMinLength: number;
}

/** An algorithm with its parameters, as text: hashes of equal cost take equal work. */
export type HashCost = string;

/** Stored hashes, read page by page. */
export interface HashSamples {
  /**
   * Reads the hashes of the next `count` accounts with ids above `after`.
   * @returns for each cost among them the account with the greatest id; empty if there are no more accounts.
   * @throws AuthError `unavailable`
   */
  sampleHashes(after: number, count: number): Promise<{ userId: number; passwordHash: Uint8Array }[]>;
}
