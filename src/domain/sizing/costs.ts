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
    /** A login without its hash. */
    login: number;
    /** One password hash, on a thread beside the event loop. */
    hash: number;
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

/** By `npm run scale -- replicas sessions` (docs/scaling.json): 64 connections, one replica, medians of the rounds. */
export const COSTS: Costs = {
  replica: { verifyKnown: 200, verifyNew: 400, refresh: 550, login: 5000, hash: 500_000 },
  idle: 0.02,
  redis: { verify: 15, refresh: 30, login: 300 },
  postgres: { refresh: 70, login: 4000 },
  // `npm run bench -- bytes` (docs/adr/0033-what-a-session-takes.md), and `npm run scale -- sessions` for users.
  bytes: { redisSession: 261, redisUser: 229, token: 227, user: 470 },
};

/** Tokens that a replica surely remembers as verified (http/verified-tokens.ts keeps one to two times as many). */
export const REMEMBERED = 10_000;
