import type { Rule } from './rule.ts';
import type { Situation } from './situation.ts';
import type { Scale } from './time.ts';

/** The events that may happen. Times in seconds, delays in steps. */
export interface World {
  /** REFRESH_RETRY_WINDOW. */
  window: number;
  /** Seconds of one step. */
  step: number;
  /** How many of the owner's requests and answers may be in flight at once; with 1 none overlap. */
  messages: number;
  /** The owner's addresses; '' is an address that is not meaningful. */
  clients: readonly string[];
  /** Whether requests may wait inside the service while others overtake them. */
  waits: boolean;
  /** How many requests and answers may get lost in all. */
  drops: number;
  /** Whether a request may arrive more than once. */
  duplicates: boolean;
  /** Steps after which a request that was sent is lost for good. */
  requestDelay: number;
  /** Steps from the first issue of a pair after which its answer is lost for good. */
  answerDelay: number;
  /** Whether the store may fall back to the record at any moment. */
  losses: boolean;
  /** Steps by which the store's clock may jump back. */
  clockBack: number;
  /** The address of a thief that steals one token at some moment; null for no thief. */
  thief: string | null;
  /** Instead of an owner and a thief: any client presents any token at any moment, and one pair is watched. */
  anyClient: boolean;
}

export const OWNER = 'a';
export const OWNERS_OTHER_ADDRESS = 'b';
export const THIEF = 't';
export const MICROS = 1_000_000;

/** Longer than the window and the longest time inside the service. */
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
    issue: { generation: now, token: 0, caller: OWNER, age: 0 },
    thief: { hasStolen: false, tokens: [], inside: null, turns: '' },
    watched: null,
    watchedInRecord: null,
  };
}
