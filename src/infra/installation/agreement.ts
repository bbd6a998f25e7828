import type { KeyInUse } from '../../domain/access-tokens/ports.ts';
import { AHEAD, LATE, SIGNED_INTERVAL } from '../../domain/access-tokens/key-lifecycle.ts';
import { reasonOf } from '../../domain/errors.ts';
import type { Objection, Standing } from '../../domain/standing.ts';
import {
  describeDifference,
  differencesOf,
  HARD_FACTS,
  objectionTo,
  objectionToMissing,
  SOFT_FACTS,
  type Difference,
  type FactName,
  type Facts,
  type Settings,
  type SoftFact,
} from './facts.ts';
import type { InstallationRecord } from './record.ts';
import { SEEDED, type SeedMark } from './seed-mark.ts';

interface AgreementPorts {
  record: InstallationRecord;
  settings: Settings;
  keys: {
    missing(): Promise<readonly KeyInUse[]>;
    /** Unless keys are missing. @returns those. */
    register(): Promise<readonly KeyInUse[]>;
  };
  /** Whose mark ends this replica at its first contact with the database; null outside production. */
  forbidden: { mark: Pick<SeedMark, 'isSet'>; end: (objection: Objection) => void } | null;
  /** Of the embedded database: no other replica can be there to agree with, and its ISSUER follows PORT. */
  isAlone: boolean;
  logger: {
    error(fields: object, text: string): void;
    warn(fields: object, text: string): void;
    info(text: string): void;
  };
}

export interface Agreement {
  standing: Standing;
  /** Looks until this replica agrees for the first time. @returns after the first look. */
  open: () => Promise<void>;
  /** Looks again. Once the replica has agreed, a failure changes nothing. @throws AuthError `unavailable` */
  look: () => Promise<void>;
  /** Each lifetime, and whether it differs from that of the installation. */
  lifetimes: () => readonly { setting: SoftFact; differs: boolean }[];
  close: () => Promise<void>;
}

/** Milliseconds between two looks until the first agreement. */
const RETRY = 1000;

const UNREAD: Objection = {
  about: 'DATABASE_URL',
  problem: 'this replica has not read yet what the installation agrees on',
  action: 'wait; if it stays so, see `database`',
};

/**
 * Whether this replica agrees with its installation (docs/adr/0025-what-replicas-agree-on.md). Until the first agreement
 * it registers nothing and serves nothing: a wrong replica would refuse the tokens of the others, and clients would take
 * that for the end of their sessions.
 */
export function makeAgreement({
  record,
  settings,
  keys,
  forbidden,
  isAlone,
  logger,
}: AgreementPorts): Agreement {
  let objection: Objection | null = UNREAD;
  let hasJoined = false;
  let looking: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;
  let isClosed = false;
  let failure: string | null = null;
  let differing: readonly Difference[] = [];

  async function judge(): Promise<Objection | null> {
    if (isAlone) return null;
    if (forbidden && !hasJoined && (await forbidden.mark.isSet())) {
      forbidden.end(SEEDED);
      return SEEDED;
    }
    // Also afterwards: the answer tells unknown keys from invented ones.
    const missing = await keys.missing();
    let facts = await record.read();
    let found = objectionTo(differencesOf(settings, facts));
    if (!found && !hasJoined) found = objectionToMissing(missing);
    if (found) return found;
    if (HARD_FACTS.some((name) => !facts.has(name))) {
      await record.add(valuesOf(HARD_FACTS));
      facts = await record.read();
      // Another replica may have been first.
      found = objectionTo(differencesOf(settings, facts));
      if (found) return found;
    }
    if (SOFT_FACTS.some((name) => isDue(name, facts))) {
      await record.hold(valuesOf(SOFT_FACTS));
      facts = await record.read();
    }
    noteDiffering(differencesOf(settings, facts));
    return null;
  }

  function isDue(name: FactName, facts: Facts): boolean {
    const fact = facts.get(name);
    if (!fact || fact.age < -AHEAD) return true;
    return fact.age > (fact.value === String(settings[name]) ? SIGNED_INTERVAL : LATE);
  }

  function valuesOf(names: readonly FactName[]): Record<string, string> {
    return Object.fromEntries(names.map((name) => [name, String(settings[name])]));
  }

  function noteDiffering(found: readonly Difference[]): void {
    for (const difference of found) {
      const { name, own, recorded } = difference;
      if (differing.some((known) => known.name === name && known.recorded === recorded)) continue;
      logger.warn(
        { setting: name, own, installation: recorded },
        `${name}: ${describeDifference(difference)}. To do: finish the rollout, or give every replica one value`,
      );
    }
    if (found.length === 0 && differing.length > 0)
      logger.info('the lifetimes of this replica are those of the installation again');
    differing = found;
  }

  async function lookNow(): Promise<void> {
    let found = await judge();
    if (!found && !hasJoined) {
      // Another replica may have been first.
      found = objectionToMissing(await keys.register());
      hasJoined = found === null;
    }
    failure = null;
    const before = objection;
    objection = found;
    if (found && found.problem !== before?.problem)
      logger.error({ ...found }, 'this replica disagrees with its installation, and does not serve');
    if (!found && before && before !== UNREAD)
      logger.info('this replica agrees with its installation, and serves');
  }

  const look = () =>
    (looking ??= lookNow().finally(() => {
      looking = null;
    }));

  async function open(): Promise<void> {
    await look().catch((error: unknown) => {
      const reason = reasonOf(error);
      if (reason !== failure)
        logger.warn({ reason }, 'cannot read what the installation agrees on: nothing is served yet');
      failure = reason;
    });
    if (!hasJoined && !isClosed) timer = setTimeout(() => void open(), RETRY).unref();
  }

  return {
    standing: { objection: () => objection },
    open,
    look,
    lifetimes: () =>
      SOFT_FACTS.map((setting) => ({ setting, differs: differing.some(({ name }) => name === setting) })),
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await looking?.catch(() => undefined);
    },
  };
}
