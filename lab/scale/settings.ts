/** The usual value, and that of `--smoke`, which only shows that the command runs. */
const AMOUNTS = {
  SCALE_ROUNDS: [7, 1],
  /** Length of a round in seconds. */
  SCALE_SECONDS: [1.5, 0.2],
  /** Rounds of logins are longer: a hash takes a third of a second. */
  SCALE_HASH_SECONDS: [4, 0.5],
  /** An idle connection of PostgreSQL reports the rows that it wrote within 10 s. */
  SCALE_REPORT_SECONDS: [11, 0.5],
  /** Sessions that Redis does not hold: each is refreshed once. */
  SCALE_COLD: [60_000, 2000],
  SCALE_MIXED_COLD: [40_000, 2000],
  /** Tokens that no replica has seen: each is verified once. */
  SCALE_NEW: [200_000, 10_000],
  /** Revocations, and changed users, in a round. */
  SCALE_CHANGES: [3000, 50],
  SCALE_CHANGE_ROUNDS: [2, 1],
  /** Replicas renew a change for a minute (domain/tokens/revocations.ts). */
  SCALE_AFTERWARDS: [70, 1],
  /** Ends of two SESSION_CACHE_TTL at 125 a second, and users that one synchronisation changes. */
  SCALE_REPLAY_ENDS: [900_000, 1000],
  SCALE_REPLAY_USERS: [100_000, 500],
  SCALE_REPLAY_ROUNDS: [3, 1],
  /** Readers that confirm what they have applied, and for how many seconds a session ends each second. */
  SCALE_CONFIRMING: [1000, 3],
  SCALE_CONFIRMED_REPLICAS: [10, 1],
  SCALE_CONFIRMED_SECONDS: [60, 3],
  /**
   * Long-lived tokens, each of which every verifier takes in each minute; and milliseconds of such a minute.
   */
  SCALE_USED: [10_000, 20],
  SCALE_VERIFIERS: [10, 2],
  SCALE_MINUTES: [5, 1],
  SCALE_MINUTE: [60_000, 1000],
  /** Users in PostgreSQL, with a session and a device each, and sessions that Redis holds too. */
  SCALE_LARGE: [5_000_000, 1000],
  SCALE_LARGE_HELD: [200_000, 200],
} as const;

export function amount(name: keyof typeof AMOUNTS, isSmoke: boolean): number {
  const [usual, smoke] = AMOUNTS[name];
  return Number(process.env[name] ?? (isSmoke ? smoke : usual));
}

/** Lists of amounts: the usual one, and that of `--smoke`. */
const LISTS = {
  /** Sessions in both stores. A million takes minutes to seed, so it runs on request: SCALE_SESSIONS=1000,100000,1000000. */
  SCALE_SESSIONS: [[1000, 100_000], [200]],
  SCALE_REPLICAS: [[1, 2, 4], [1]],
  SCALE_CHANGE_REPLICAS: [
    [1, 3, 12],
    [1, 2],
  ],
  /** Readers of the feed on one replica. */
  SCALE_READERS: [[100, 1000], [10]],
  SCALE_CONNECTIONS: [[1, 64, 512], [8]],
  /** Sessions of one user. */
  SCALE_TOKENS: [[1, 100, 1000, 10_000], [20]],
} as const;

export function list(name: keyof typeof LISTS, isSmoke: boolean): number[] {
  const [usual, smoke] = LISTS[name];
  const given = process.env[name];
  return given === undefined ? [...(isSmoke ? smoke : usual)] : given.split(',').map(Number);
}
