import { REMEMBERED, type Costs } from './costs.ts';

/** How users behave. */
export interface Usage {
  /** Accounts. */
  users: number;
  /** Share of the users who come on a day, 0 to 1. */
  activeShare: number;
  /** Visits of such a user on a day, and their length in seconds. */
  visitsPerDay: number;
  visitSeconds: number;
  /** Seconds between two refreshes of a session in use. */
  refreshEvery: number;
  /** Requests to Latchkey's verify by a session in use, in a minute. 0 if services verify tokens themselves. */
  verifiesPerMinute: number;
  /** Logins of a user who comes on a day. */
  loginsPerDay: number;
  /** The busiest second as a multiple of the day's mean. */
  peak: number;
  /** Sessions of a user on record that have not ended. */
  sessionsPerUser: number;
  /** Growth of the accounts in a month, as a share. */
  growth: number;
  /** Measured in the busiest second. They replace what the habits above would lead to. */
  known: { sessionsInUse?: number; verifies?: number; refreshes?: number; logins?: number };
}

const DAY = 86_400;
/** Days of a month. */
export const MONTH = 30;

/** Requests a second, all replicas together. */
export interface Rates {
  logins: number;
  refreshes: number;
  /** Of the refreshes, those whose session Redis does not hold any more. */
  coldRefreshes: number;
  verifies: number;
}

export interface Demand {
  /** The day's mean, and the busiest second. */
  mean: Rates;
  peak: Rates;
  /** Sessions in use at once, in the busiest second. */
  inUse: number;
  /** Visits that begin in the busiest second. */
  visits: number;
}

/**
 * What these users ask for. A signup costs what a login costs, so it counts as one. A visit begins cold if the one
 * before ended more than SESSION_CACHE_TTL ago. Visits are taken to begin at random moments.
 * @param sessionCacheTtl in seconds.
 */
export function demandOf(usage: Usage, sessionCacheTtl: number): Demand {
  const { known } = usage;
  const active = Math.max(usage.users * usage.activeShare, known.sessionsInUse ?? 0);
  const visits =
    known.sessionsInUse === undefined
      ? (active * usage.visitsPerDay) / DAY
      : known.sessionsInUse / usage.peak / usage.visitSeconds;
  const visitsPerDay = (visits * DAY) / active;
  // A visit begins with a refresh: the access token of the last one has expired.
  const refreshesOfVisit = 1 + Math.floor(usage.visitSeconds / usage.refreshEvery);
  const signups = (usage.users * usage.growth) / (MONTH * DAY);
  const inUse = visits * usage.visitSeconds;
  const coldVisits = visits * Math.exp((-visitsPerDay * sessionCacheTtl) / DAY);
  const expected = visits * refreshesOfVisit;
  const cold = coldVisits + (usage.refreshEvery > sessionCacheTtl ? expected - visits : 0);
  const meanOf = (atPeak: number | undefined, otherwise: number) =>
    atPeak === undefined ? otherwise : atPeak / usage.peak;
  const refreshes = meanOf(known.refreshes, expected);
  const mean = {
    logins: meanOf(known.logins, (active * usage.loginsPerDay) / DAY + signups),
    refreshes,
    coldRefreshes: expected === 0 ? 0 : (cold * refreshes) / expected,
    verifies: meanOf(known.verifies, (inUse * usage.verifiesPerMinute) / 60),
  };
  const peak = {
    logins: mean.logins * usage.peak,
    refreshes: mean.refreshes * usage.peak,
    coldRefreshes: mean.coldRefreshes * usage.peak,
    verifies: mean.verifies * usage.peak,
  };
  // Each active user has one session in use at most: a peak cannot exceed that.
  const most = known.sessionsInUse ?? Math.min(active, inUse * usage.peak);
  return { mean, peak, inUse: most, visits: visits * usage.peak };
}

/** CPU in cores. */
export interface Cores {
  /** Of the replicas' event loops. One replica has one. */
  loop: number;
  /** Of the replicas' logins, nearly all on other threads. */
  hash: number;
  redis: number;
  postgres: number;
}

/**
 * What requests cost, without what replicas use when idle.
 * @param remembered whether replicas still know the tokens that they verify (REMEMBERED).
 */
export function coresOf(rates: Rates, remembered: boolean, costs: Costs): Cores {
  const { logins, coldRefreshes, verifies } = rates;
  const warm = rates.refreshes - coldRefreshes;
  const { replica, redis, postgres } = costs;
  const verify = remembered ? replica.verifyKnown : replica.verifyNew;
  const refreshing = (cost: { refresh: number; coldRefresh: number }) =>
    warm * cost.refresh + coldRefreshes * cost.coldRefresh;
  return {
    loop: (verifies * verify + refreshing(replica)) / 1e6,
    hash: (logins * replica.login) / 1e6,
    redis: (verifies * redis.verify + refreshing(redis) + logins * redis.login) / 1e6,
    postgres: (refreshing(postgres) + logins * postgres.login) / 1e6,
  };
}

/** Whether every replica remembers the access tokens in use: each may see all of them. */
export function isRemembered(inUse: number): boolean {
  return inUse <= REMEMBERED;
}
