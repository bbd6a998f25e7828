import type { Clock } from '../clock.ts';
import type { HashCost, HashSamples, PasswordHasher } from './ports.ts';

interface HashCostsPorts {
  hasher: Pick<PasswordHasher, 'cost' | 'costOf'>;
  samples: HashSamples;
  clock: Pick<Clock, 'monotonic'>;
  /** Called when the set of costs has changed. */
  onChange: (costs: HashCost[]) => void;
}

/** Accounts per page: some 20 ms for the database. */
const PAGE = 20_000;
/** Rest between walks through all accounts, in milliseconds. Logins add new costs at once; a walk removes old ones. */
const REST = 600_000;

/** The costs of the stored hashes, and today's. An old cost stays until each account that has it has logged in. */
export interface HashCosts {
  all(): readonly HashCost[];
  /** Adds the cost of a stored hash. */
  note(hash: Uint8Array): void;
  /** Reads the next page of accounts. After the last page, costs that no account has are removed. */
  step(): Promise<void>;
}

export function makeHashCosts({ hasher, samples, clock, onChange }: HashCostsPorts): HashCosts {
  let costs = new Set([hasher.cost]);
  let walk = { after: 0, seen: new Set([hasher.cost]) };
  let restsUntil = -Infinity;

  function note(hash: Uint8Array): void {
    const cost = hasher.costOf(hash);
    if (cost === null) return;
    walk.seen.add(cost);
    if (costs.has(cost)) return;
    costs.add(cost);
    onChange([...costs]);
  }

  function finishWalk(): void {
    const { seen } = walk;
    const hasFewer = seen.size < costs.size;
    costs = seen;
    walk = { after: 0, seen: new Set([hasher.cost]) };
    restsUntil = clock.monotonic() + REST;
    if (hasFewer) onChange([...costs]);
  }

  return {
    all: () => [...costs],
    note,
    async step() {
      if (clock.monotonic() < restsUntil) return;
      const page = await samples.sampleHashes(walk.after, PAGE);
      for (const { passwordHash } of page) note(passwordHash);
      if (page.length === 0) finishWalk();
      else walk.after = Math.max(...page.map(({ userId }) => userId));
    },
  };
}
