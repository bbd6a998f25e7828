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
  SCALE_CONNECTIONS: [[1, 64, 512], [8]],
  /** Sessions of one user. */
  SCALE_TOKENS: [[1, 100, 1000, 10_000], [20]],
} as const;

export function list(name: keyof typeof LISTS, isSmoke: boolean): number[] {
  const [usual, smoke] = LISTS[name];
  const given = process.env[name];
  return given === undefined ? [...(isSmoke ? smoke : usual)] : given.split(',').map(Number);
}
