/** What the environment may change of a run, and what has to come out of it. */
import { REMEMBERED } from '../../src/domain/sizing/costs.ts';

/** The usual value, and that of `--smoke`, which only shows that the bench runs. */
const AMOUNTS = {
  /** Many short rounds: other work on the machine comes in bursts of seconds, and should hit all servers alike. */
  BENCH_ROUNDS: [11, 1],
  BENCH_SECONDS: [0.5, 0.1],
  /** Rounds of login and signup are longer: a hash takes a third of a second. */
  BENCH_HASH_SECONDS: [2, 0.1],
  BENCH_LATENCY_SECONDS: [1.5, 0.3],
  BENCH_FLOOD_SECONDS: [2, 0.5],
  BENCH_MEMORY_SECONDS: [8, 1],
  /** These fill both generations of the cache of a replica whose memory limit leaves nothing to more. */
  BENCH_MEMORY_TOKENS: [2 * REMEMBERED, 2000],
  /** How many of the cases of memory.ts, from the last one on. */
  BENCH_MEMORY_CASES: [3, 1],
  /** How often the largest cache of verified tokens is filled. */
  BENCH_STALL_FILLS: [3, 1],
  /** The most; fewer are enough if the machine is quiet. */
  BENCH_LOGIN_ROUNDS: [90, 1],
  /** Sessions of the row beside verify's usual 100. */
  BENCH_MANY_SESSIONS: [40_000, 500],
  /** Tokens that Redis's instructions are counted for, in each way. */
  BENCH_INSTRUCTIONS_VERIFIES: [6400, 64],
  BENCH_BYTES_SESSIONS: [100_000, 2000],
  BENCH_BYTES_REFRESHES: [10, 2],
  /** Rounds of `--peers`. */
  BENCH_PEER_ROUNDS: [9, 1],
  BENCH_PEER_SECONDS: [1, 0.2],
} as const;

/** What has to come out; 0 (or Infinity for a MAX) turns a check off. */
const LIMITS = {
  /** Of the ruler; the other shares are of the floor, as docs/adr/0017 says. All are shares of CPU time. */
  BENCH_MIN_VERIFY: 0.55,
  BENCH_MIN_REFRESH: 0.75,
  BENCH_MIN_LOGOUT: 0.6,
  BENCH_MIN_INTROSPECTION: 0.5,
  BENCH_MIN_CREDENTIALS: 0.7,
  BENCH_MIN_STATIC: 0.7,
  BENCH_MIN_LOGIN: 0.95,
  /** CPU time of a verify with BENCH_MANY_SESSIONS sessions, as a multiple of that with 100. */
  BENCH_MAX_MANY_SESSIONS: 1.2,
  /** Of Redis, for a verify: with others in a call, and in a call of its own, whose form alone costs 17,000 (ADR 5). */
  BENCH_MAX_INSTRUCTIONS: 45_000,
  BENCH_MAX_INSTRUCTIONS_ALONE: 59_000,
  /** The power to find a difference of 5% between failed logins. */
  BENCH_MIN_POWER: 0.9,
  /** Verify's p99 in a flood of logins, as a multiple of the idle one. */
  BENCH_MAX_FLOOD: 3,
  /** Milliseconds; a verify must not wait longer for what others present. */
  BENCH_MAX_STALL: 20,
  /** Of one session; docs/adr/0017 says what is counted. */
  BENCH_MAX_REDIS_BYTES: 200,
  BENCH_MAX_POSTGRES_BYTES: 250,
  /** Of `--peers`: how many times as fast as better-auth's session check. */
  BENCH_MIN_PEER_VERIFY: 20,
  /** How many times as fast as oidc-provider (docs/adr/0017-speed-and-size.md). */
  BENCH_MIN_PEER_INTROSPECTION: 3.5,
  BENCH_MIN_PEER_REFRESH: 3,
} as const;

export type Amount = keyof typeof AMOUNTS;
export type LimitName = keyof typeof LIMITS;

export function amount(name: Amount, isSmoke: boolean): number {
  const [usual, smoke] = AMOUNTS[name];
  return Number(process.env[name] ?? (isSmoke ? smoke : usual));
}

/** Cores that a p99 needs: one for the server, one for the load, one for the stores. */
export const LATENCY_CORES = Number(process.env.BENCH_LATENCY_CORES ?? 3);

export function limit(name: LimitName): number {
  return Number(process.env[name] ?? LIMITS[name]);
}
