import type { Rule } from './rule.ts';
import type { Situation } from './situation.ts';
import type { Scale } from './time.ts';

/** What may happen. Times in seconds, delays in steps. */
export interface World {
  /** REFRESH_RETRY_WINDOW. */
  window: number;
  /** How much time passes at once. */
  step: number;
  /** How many of the owner's requests and answers may be under way at once; with 1 nothing overlaps. */
  messages: number;
  /** The owner's addresses; empty is one that means nothing. */
  clients: readonly string[];
  /** Whether requests may wait inside the service, so that others overtake them. */
  waits: boolean;
  /** How many requests and answers may get lost in all. */
  drops: number;
  /** A request may arrive more than once. */
  duplicates: boolean;
  /** Steps after which a request that was sent is lost for good. */
  requestDelay: number;
  /** Steps after a pair was issued for the first time, after which its answer is lost for good. */
  answerDelay: number;
  /** The store may fall back to the record at any moment. */
  losses: boolean;
  /** Steps by which the store's clock may jump back. */
  clockBack: number;
  /** The client of a thief that steals one token at some moment; null where there is none. */
  thief: string | null;
  /** Instead of an owner and a thief: anybody presents any token at any moment, and one pair is watched. */
  anybody: boolean;
}

export const OWNER = 'a';
export const OWNERS_OTHER_ADDRESS = 'b';
export const THIEF = 't';
export const MICROS = 1_000_000;

/** Beyond the window, and beyond what a request may spend inside the service. */
const LONGEST_INSIDE = 5;

export function scaleOf({ step, window, clockBack }: World): Scale {
  return {
    step: step * MICROS,
    oldest: Math.floor(Math.max(window, LONGEST_INSIDE) / step) + 1 + clockBack,
  };
}

export function firstSituation(world: World, rule: Rule): Situation {
  const scale = scaleOf(world);
  const now = (scale.oldest + 1) * scale.step + 1;
  const session = rule.initialState(now, OWNER);
  return {
    now,
    session,
    record: world.losses ? session : null,
    held: now,
    messages: [],
    drops: world.drops,
    issue: { generation: now, token: 0, client: OWNER, age: 0 },
    thief: { hasStolen: false, tokens: [], inside: null, turns: '' },
    watched: null,
    watchedInRecord: null,
  };
}
