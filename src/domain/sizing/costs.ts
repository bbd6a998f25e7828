/**
 * What one request and one session cost, as measured on the machine that docs/scaling.md names. A faster or slower core
 * scales all CPU times alike.
 */
export interface Costs {
  /** CPU of a replica, in microseconds of a request. */
  replica: {
    /** A verify whose token this replica has verified before. */
    verifyKnown: number;
    /** A verify that checks the token's signature. */
    verifyNew: number;
    refresh: number;
    /** A login with its password hash, which takes nearly all of it, on a thread beside the event loop. */
    login: number;
  };
  /** Cores that a replica uses without requests. */
  idle: number;
  /** CPU of Redis, in microseconds of a request. */
  redis: { verify: number; refresh: number; login: number };
  /** CPU of PostgreSQL's connections, in microseconds of a request. */
  postgres: { refresh: number; login: number };
  bytes: {
    /** A session in Redis, by `used_memory`. */
    redisSession: number;
    /** A user in Redis, once for all sessions: MEMORY USAGE, and what the table of keys grows by. */
    redisUser: number;
    /** A row of `tokens` with its indexes, after refreshes. */
    token: number;
    /** A row of `users` with its indexes. */
    user: number;
  };
}

/**
 * Medians with one replica and 64 connections (docs/scaling.json): by `npm run scale -- replicas`, and for `verifyNew`,
 * for refresh, for verify and refresh in the stores, and for bytes of users by `npm run scale -- sessions` with 100,000.
 */
export const COSTS: Costs = {
  replica: { verifyKnown: 91, verifyNew: 328, refresh: 402, login: 545_000 },
  idle: 0.01,
  redis: { verify: 22, refresh: 45, login: 3400 },
  postgres: { refresh: 25, login: 12_800 },
  // By `npm run bench -- bytes` (docs/adr/0033-what-a-session-takes.md), except those of users.
  bytes: { redisSession: 261, redisUser: 229, token: 227, user: 559 },
};

/** Tokens that a replica surely remembers as verified (http/verified-tokens.ts keeps one to two times as many). */
export const REMEMBERED = 10_000;
