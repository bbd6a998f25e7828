/**
 * What one request and one session cost, as measured on the machine that docs/performance.md names. A faster or
 * slower core scales all CPU times alike.
 */
export interface Costs {
  /** CPU of a replica, in microseconds of a request. */
  replica: {
    /** A verify whose token this replica has verified before. */
    verifyKnown: number;
    /** The first verify of a token on this replica, which checks its signature. */
    verifyNew: number;
    refresh: number;
    /** A refresh that misses Redis: it reads the session from PostgreSQL. */
    coldRefresh: number;
    /** A login with its password hash, which takes nearly all of it, on a thread beside the event loop. */
    login: number;
  };
  /** Cores that a replica uses without requests: its own, and those of the stores for it. */
  idle: { replica: number; redis: number; postgres: number };
  /** CPU of Redis, in microseconds of a request. */
  redis: { verify: number; refresh: number; coldRefresh: number; login: number };
  /** CPU of PostgreSQL's connections, in microseconds of a request. */
  postgres: { refresh: number; coldRefresh: number; login: number };
  /** null: not measured in this version. */
  changes: {
    /** A revoked session or long-lived token, with the renewal of its tombstone. */
    revocation: ChangeCost;
    /** A user whose names, address, roles or status have changed. */
    user: ChangeCost;
  } | null;
  /** CPU of a replica, in microseconds of each second that a reader of the feed is connected. null: not measured. */
  reader: {
    /** Without events: heartbeats. */
    quiet: number;
    /** With an event in every read of the stream (composition/revocation-feed.ts). */
    busy: number;
  } | null;
  bytes: {
    /** A session in Redis, by `used_memory`. */
    redisSession: number;
    /** A user in Redis, once for all sessions: MEMORY USAGE, and what the table of keys grows by. */
    redisUser: number;
    /** A revoked token in Redis: its tombstone, and its event in the feed. */
    redisRevoked: number;
    /** A row of `tokens` with its indexes, after refreshes. */
    token: number;
    /** A row of `users` with its indexes. */
    user: number;
    /** A row of `known_devices` with its index. */
    knownDevice: number;
  };
}

/** CPU in microseconds: once, and again for each replica. */
export type ChangeCost = Record<'replica' | 'redis' | 'postgres', { once: number; eachReplica: number }>;

/**
 * Written by `npm run scale -- --costs --save` from docs/scaling.json and docs/benchmarks.json, which say what was
 * measured (docs/adr/0017-speed-and-size.md). Only `redisRevoked` is by hand: `npm test -- --attack churn` prints
 * it, and the table of keys adds 57.
 */
export const COSTS: Costs = {
  replica: { verifyKnown: 26.3, verifyNew: 120, refresh: 151, coldRefresh: 326, login: 315000 },
  idle: { replica: 0.0107, redis: 0.0006, postgres: 0.0017 },
  redis: { verify: 6.91, refresh: 23.8, coldRefresh: 56.8, login: 465 },
  postgres: { refresh: 18.6, coldRefresh: 297, login: 2790 },
  changes: {
    revocation: {
      replica: { once: 696, eachReplica: 5.5 },
      redis: { once: 83, eachReplica: 2.4 },
      postgres: { once: 353, eachReplica: 32.9 },
    },
    user: {
      replica: { once: 3869, eachReplica: 0 },
      redis: { once: 342, eachReplica: 0 },
      postgres: { once: 2310, eachReplica: 37.3 },
    },
  },
  reader: { quiet: 16, busy: 66 },
  bytes: { redisSession: 261, redisUser: 261, redisRevoked: 205, token: 235, user: 598, knownDevice: 132 },
};

/** Verified tokens that every replica surely remembers: they fit into BASE_MEMORY (remembered-tokens.ts). */
export const REMEMBERED = 50_000;
