import type { Objection } from '../../domain/standing.ts';

/** Names an installation's Redis, and the moment of its database to which it belongs. */
export interface RedisMark {
  /** PostgreSQL names the same one, as long as it uses this Redis. */
  id: string;
  /** One of those that PostgreSQL has recorded. */
  mark: string;
}

/** What PostgreSQL says. */
export interface Recorded {
  /** The id of the Redis in use; null before the first. */
  id: string | null;
  /** Milliseconds since a replica last showed that it serves with that Redis; null before the first. */
  quietFor: number | null;
  /** The newest mark, and the one before it. */
  newest: string | null;
  before: string | null;
  /** Which of the marks that Redis holds are recorded. */
  known: ReadonlySet<string>;
}

/** What this replica remembers. */
export interface Memory {
  /** The id of the Redis with which it has served; null before the first. */
  bound: string | null;
  /** Ids under which it served before. */
  former: ReadonlySet<string>;
  /** Whether PostgreSQL has said for a while, at each look, that no replica serves. */
  isSteady: boolean;
}

/** Of a replica that has started a while ago. */
export const NEWCOMER: Memory = { bound: null, former: new Set(), isSteady: true };

/**
 * `admit`: this Redis belongs to this database. `claim`: it may become this database's Redis, under a new id, in some
 * cases only if no replica serves. `wait`: it may once nobody serves with another one. `refuse`: it does not belong here.
 */
export type Verdict =
  | { is: 'admit' }
  | { is: 'claim'; ifSilent: boolean }
  | { is: 'wait'; objection: Objection }
  | { is: 'refuse'; objection: Objection };

/** Without a sign of a serving replica for this time, none serves; milliseconds. Three times the interval of marks. */
const QUIET = 30_000;

/**
 * For how long PostgreSQL has to have said at each look that no replica serves before that counts, in milliseconds.
 * During an outage those that serve cannot show it, nor before a clock was set, and a replica that waits would take their
 * place.
 */
export const STEADY = 10_000;

/**
 * A time that is ahead by more than this comes from a server whose clock was, and a replica that serves replaces it at
 * once; milliseconds.
 */
const AHEAD = 10_000;

/** @param quietFor as PostgreSQL says it. @returns whether no replica shows that it serves. */
export function isSilent(quietFor: number | null): boolean {
  return quietFor === null || quietFor > QUIET || quietFor < -AHEAD;
}

/** How long after the last sign of a serving replica another Redis is taken. */
export const FREE_AFTER = `${(QUIET + STEADY) / 1000} s`;

const ABOUT = 'REDIS_URL';

const UNKNOWN: Objection = {
  about: ABOUT,
  problem:
    'Redis holds a mark that this database does not know: it belongs to another database, or this one is a copy or was restored from a backup',
  action:
    'after a restore, stop all replicas and run `npx latchkey recover`; otherwise give this installation a Redis or a REDIS_PREFIX of its own, or delete the keys below this prefix if no other installation uses them',
};

const LEFT: Objection = {
  about: ABOUT,
  problem: 'the other replicas have moved to another Redis: the database names that one',
  action:
    'give this replica the REDIS_URL, REDIS_NODES and REDIS_PREFIX of the others, and restart it; if theirs is the wrong one, stop them: this replica serves again ' +
    `${FREE_AFTER} later`,
};

const OCCUPIED: Objection = {
  about: ABOUT,
  problem:
    'the database names another Redis than this one, and a replica serves with it, or did so within the last ' +
    FREE_AFTER,
  action:
    'check REDIS_URL, REDIS_NODES and REDIS_PREFIX; to move to another Redis, stop all replicas that use the old one (docs/operating.md, "Move Redis")',
};

/**
 * Whether a replica may serve with its Redis. A mark that the database does not know comes first, whatever the id,
 * because copies of the database carry the id too.
 * @param held what each master holds; null for nothing
 */
export function judge(
  held: readonly (RedisMark | null)[],
  recorded: Recorded,
  { bound, former, isSteady }: Memory,
): Verdict {
  const marks = held.filter((mark) => mark !== null);
  if (marks.some(({ mark }) => !recorded.known.has(mark))) return { is: 'refuse', objection: UNKNOWN };
  const areAll = (id: string) => marks.length > 0 && marks.every((mark) => mark.id === id);
  // A master without a mark is new in its cluster, or was emptied.
  if (recorded.id !== null && areAll(recorded.id)) return { is: 'admit' };

  if (bound !== null) {
    // Our Redis was emptied, or an old one came back, and nobody has claimed it yet.
    if (recorded.id === bound) return { is: 'claim', ifSilent: false };
    // A failover of PostgreSQL lost what the last claim wrote there.
    if (recorded.id === null || former.has(recorded.id)) return { is: 'claim', ifSilent: false };
  }
  if (recorded.quietFor === null || (isSteady && isSilent(recorded.quietFor)))
    return { is: 'claim', ifSilent: true };
  return { is: 'wait', objection: bound !== null && areAll(bound) ? LEFT : OCCUPIED };
}
