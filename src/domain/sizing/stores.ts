import type { Costs } from './costs.ts';
import { MONTH, type Cores, type Demand, type Rates, type Usage } from './demand.ts';

export interface StorePlan {
  redis: {
    /** Sessions in Redis at the peak, and their bytes with those of their users. */
    sessions: number;
    bytes: number;
    /** Bytes of the tombstones of revoked tokens. */
    revokedBytes: number;
    /** `maxmemory` of each master. */
    maxMemory: number;
    masters: number;
  };
  postgres: {
    /** Rows of `tokens`: sessions in use on record, and ended ones that no purge has deleted yet. */
    tokens: number;
    /** Rows of `known_devices`, at most: each login comes from a device or an address of its own. */
    knownDevices: number;
    /** Bytes of users, tokens and known devices with their indexes, when purge deletes as much as logins add. */
    bytes: number;
    /** Growth in a month with new accounts, after the first months. */
    monthlyBytes: number;
    /** Growth in each of the first months, while purge does not delete yet. */
    firstMonthlyBytes: number;
    /**
     * In the busiest second. A refresh writes one row, and a second one if the new pair is used after that. The changes of
     * users and ends of sessions write one, and another one once Redis knows of them.
     */
    rowWrites: number;
    /** Rows of `tokens` above which it should be partitioned, and whether it is. */
    partition: boolean;
  };
}

const DAY = 86_400;
/** A master of Redis has one thread for commands. Half of it stays free for bursts and failovers. */
const REDIS_CPU = 0.5;
/** A master of this size fills a new replica within minutes. */
const REDIS_BYTES = 8 * 1024 ** 3;
/** For fragmentation, tombstones, counters of failed logins, and buffers. */
const REDIS_ROOM = 1.5;
/** Tombstones live twice as long as states. */
const TOMBSTONE = 2;
const REDIS_LEAST = 192 * 1024 ** 2;
/** A cluster has three masters at least. */
const CLUSTER = 3;
/** Each refresh: the rotation, and the first use of the new pair. Each login: token, device, and the state. */
const WRITES = { refresh: 2, login: 3, revocation: 2, change: 2 };
/** Rows. Then indexes exceed the memory of usual servers, and a vacuum takes hours. */
const PARTITION_ABOVE = 500_000_000;

/** Days for which a device stays known, and devices of a user (infra/postgres/known-devices.ts). */
const KNOWN_DAYS = 90;
const KNOWN_MOST = 20;

/** Rows written a second, at most. */
export function rowWritesOf({ refreshes, logins, revocations, changes }: Rates): number {
  return (
    refreshes * WRITES.refresh +
    logins * WRITES.login +
    revocations * WRITES.revocation +
    changes * WRITES.change
  );
}

interface Limits {
  sessionCacheTtl: number;
  refreshTokenTtl: number;
  /** Logins a second, if all replicas do nothing but hash. */
  loginsAtMost: number;
}

export function planStores(
  usage: Usage,
  demand: Demand,
  cores: Cores,
  limits: Limits,
  costs: Costs,
): StorePlan {
  return {
    redis: planRedis(usage, demand, cores, limits, costs),
    postgres: planPostgres(usage, demand, limits, costs),
  };
}

function planRedis(
  { users, activeShare, sessionsPerUser, visitSeconds, known }: Usage,
  { peak, visits, inUse }: Demand,
  cores: Cores,
  { sessionCacheTtl, loginsAtMost }: Limits,
  { bytes }: Costs,
): StorePlan['redis'] {
  // A state stays for SESSION_CACHE_TTL after the last refresh, at most after the visit.
  const most = known.sessionsInUse === undefined ? users * activeShare : users * sessionsPerUser;
  const sessions = Math.max(inUse, Math.min(most, visits * (visitSeconds + sessionCacheTtl)));
  const used = sessions * (bytes.redisSession + bytes.redisUser);
  // One account that logs in without end: each session is cached, and replaced by the hundredth after it.
  const flood = loginsAtMost * sessionCacheTtl * (bytes.redisSession + TOMBSTONE * bytes.redisRevoked);
  const revoked = peak.revocations * TOMBSTONE * sessionCacheTtl * bytes.redisRevoked;
  const room = (used + revoked) * REDIS_ROOM + flood;
  const needed = Math.max(Math.ceil(cores.redis / REDIS_CPU), Math.ceil(room / REDIS_BYTES), 1);
  const masters = needed > 1 ? Math.max(CLUSTER, needed) : 1;
  const maxMemory = Math.max(REDIS_LEAST, Math.ceil(room / masters));
  return { sessions, bytes: used, revokedBytes: revoked, maxMemory, masters };
}

function planPostgres(
  { users, sessionsPerUser, growth }: Usage,
  { mean, peak }: Demand,
  { refreshTokenTtl }: Limits,
  { bytes }: Costs,
): StorePlan['postgres'] {
  const loginsPerDay = mean.logins * DAY;
  // `latchkey purge` keeps a session for a second lifetime, or 30 days if that is longer.
  const keptDays = (refreshTokenTtl + Math.max(refreshTokenTtl, MONTH * DAY)) / DAY;
  const tokens = users * sessionsPerUser + loginsPerDay * keptDays;
  const knownDevices = Math.min(users * KNOWN_MOST, loginsPerDay * KNOWN_DAYS);
  const all = users * bytes.user + tokens * bytes.token + knownDevices * bytes.knownDevice;
  return {
    tokens,
    knownDevices,
    bytes: all,
    monthlyBytes: growth * all,
    firstMonthlyBytes: growth * users * bytes.user + loginsPerDay * MONTH * (bytes.token + bytes.knownDevice),
    rowWrites: rowWritesOf(peak),
    partition: tokens > PARTITION_ABOVE,
  };
}
