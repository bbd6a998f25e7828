import type { Bulkhead, Share, Turn } from './bulkhead.ts';
import type { HashCosts } from './hash-costs.ts';
import type { PasswordHasher } from './ports.ts';

interface CheckPasswordPorts {
  hasher: Pick<PasswordHasher, 'verify' | 'costOf' | 'toImitate' | 'imitate'>;
  costs: Pick<HashCosts, 'all' | 'note'>;
  bulkhead: Pick<Bulkhead, 'run'>;
}

interface PasswordTry {
  /** The stored hash; null for a name without an account. */
  hash: Uint8Array | null;
  /** As it was sent: a hash of another system may need it so. */
  password: string;
  /** How many tries at the account were wrong lately (`PasswordHasher.verify`). */
  earlier: number;
  /** False if the account is disabled: then the right password fails too. */
  mayOpen: boolean;
  share: Share;
  turn: Turn;
}

/**
 * Checks a password. Every failure does the work of one hash of each stored cost, so that its time does not tell why it
 * failed. If all hashes have today's cost, that is one hash. See docs/adr/0009-passwords-and-hashes.md.
 */
export function makeCheckPassword({ hasher, costs, bulkhead }: CheckPasswordPorts) {
  /**
   * @returns whether the password is right.
   * @throws AuthError `overloaded`
   */
  return function checkPassword({
    hash,
    password,
    earlier,
    mayOpen,
    share,
    turn,
  }: PasswordTry): Promise<boolean> {
    // All work in one place of the bulkhead: waiting callers could measure how long a place is taken.
    return bulkhead.run(share, turn, async () => {
      const matches = hash !== null && (await hasher.verify(hash, password, earlier));
      if (matches && mayOpen) return true;
      if (hash) costs.note(hash);
      const done = hash && hasher.costOf(hash);
      for (const cost of hasher.toImitate(costs.all(), done)) await hasher.imitate(cost, password);
      return matches;
    });
  };
}

export type CheckPassword = ReturnType<typeof makeCheckPassword>;
