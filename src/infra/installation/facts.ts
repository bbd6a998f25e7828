import type { KeyInUse } from '../../domain/access-tokens/ports.ts';
import { LATE } from '../../domain/access-tokens/key-lifecycle.ts';
import type { Objection } from '../../domain/standing.ts';

interface FactKind {
  /** A replica that differs in a hard one does not serve. The others change by rollout: replicas differ meanwhile. */
  isHard: boolean;
  /** What happens to clients as long as replicas differ. */
  harm: string;
}

/** The settings that replicas share: log, `/health/ready`, `doctor`, the metric and the reference derive from them. */
export const FACTS = {
  ISSUER: { isHard: true, harm: 'each replica refuses the tokens of the others' },
  AUDIENCE: { isHard: true, harm: 'each replica refuses the tokens of the others' },
  ACCESS_TOKEN_TTL: { isHard: false, harm: 'a reader of the feed gets a snapshot from each replica' },
  REFRESH_TOKEN_TTL: { isHard: false, harm: 'replicas with the shorter one sign users out' },
  SESSION_MAX_AGE: { isHard: false, harm: 'replicas with the shorter one sign users out' },
  SESSION_CACHE_TTL: { isHard: false, harm: 'a state of the longer one may outlive its revocation' },
  REFRESH_RETRY_WINDOW: {
    isHard: false,
    harm: 'replicas with the shorter one take a retry for theft, which ends the session',
  },
  LLT_MAX_AGE: { isHard: false, harm: 'long-lived tokens of some replicas live longer than intended' },
  KEY_PUBLISH_LEAD: { isHard: false, harm: 'the shortest one decides when a new key signs' },
} as const satisfies Record<string, FactKind>;

export type FactName = keyof typeof FACTS;
export const FACT_NAMES = Object.keys(FACTS) as FactName[];

/** The hard facts, and the others. */
export type HardFact = {
  [Name in FactName]: (typeof FACTS)[Name]['isHard'] extends true ? Name : never;
}[FactName];
export type SoftFact = Exclude<FactName, HardFact>;
export const HARD_FACTS = FACT_NAMES.filter((name): name is HardFact => FACTS[name].isHard);
export const SOFT_FACTS = FACT_NAMES.filter((name): name is SoftFact => !FACTS[name].isHard);

/** A replica's own values, as in its configuration. */
export type Settings = Readonly<Record<FactName, string | number>>;

/** A fact on record. */
export interface Fact {
  value: string;
  /** For how long it has been there, in milliseconds by the database's clock. */
  age: number;
}

export type Facts = ReadonlyMap<string, Fact>;

/** A setting whose value is not the installation's. */
export interface Difference {
  name: FactName;
  own: string;
  recorded: string;
}

/** @param settings all of them, or some. @returns where a replica differs, hard facts first. */
export function differencesOf(settings: Partial<Settings>, recorded: Facts): Difference[] {
  return FACT_NAMES.flatMap((name) => {
    const own = String(settings[name]);
    const value = recorded.get(name)?.value;
    return settings[name] === undefined || value === undefined || value === own
      ? []
      : [{ name, own, recorded: value }];
  });
}

/** Of settings that must be equal. */
export function objectionTo(differences: readonly Difference[]): Objection | null {
  const difference = differences.find(({ name }) => FACTS[name].isHard);
  if (!difference) return null;
  const { name } = difference;
  return {
    about: name,
    problem: describeDifference(difference),
    action:
      `set ${name} as the other replicas have it; if this value is to replace theirs, stop every replica, ` +
      'run `latchkey settings accept` with it, and start them again',
  };
}

export function describeDifference({ own, recorded, name }: Difference): string {
  const isSlash = own.replace(/\/$/, '') === recorded.replace(/\/$/, '');
  const detail = isSlash ? ' (they differ by the slash at the end)' : '';
  return `it is ${own} here and ${recorded} in the installation${detail}: ${FACTS[name].harm}`;
}

/** The setting of each kind of key. */
const KEY_SETTINGS = { signing: 'SIGNING_KEYS_DIR', refresh: 'REFRESH_TOKEN_SECRET' } as const;

/** Of keys that other replicas sign with, and this one does not have. */
export function objectionToMissing(missing: readonly KeyInUse[]): Objection | null {
  const [first] = missing;
  if (!first) return null;
  const { kid, kind } = first;
  const what = kind === 'refresh' ? 'secret' : 'key';
  return {
    about: KEY_SETTINGS[kind],
    problem: `the ${what} ${kid} is not here, and it is among those that replicas signed with last`,
    action:
      `give this replica that ${what}, as the others have it; if it has leaked and is to go, run ` +
      `\`latchkey settings accept --retire ${kid}\`; if no other replica runs, wait ${LATE / 1000} s`,
  };
}
