import type { ChangeCost, Costs } from './costs.ts';

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
  /** Services that read the feed of revocations, each connection of its own. */
  feedReaders: number;
  /** Measured in the busiest second. They replace what the habits above would lead to. */
  known: {
    sessionsInUse?: number;
    verifies?: number;
    refreshes?: number;
    logins?: number;
    revocations?: number;
    changes?: number;
  };
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
  /** Sessions and long-lived tokens that are revoked. */
  revocations: number;
  /** Users whose names, address, roles or status change. */
  changes: number;
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
  const logins = meanOf(known.logins, (active * usage.loginsPerDay) / DAY + signups);
  const mean = {
    logins,
    refreshes,
    coldRefreshes: expected === 0 ? 0 : (cold * refreshes) / expected,
    verifies: meanOf(known.verifies, (inUse * usage.verifiesPerMinute) / 60),
    // In the long run, no more sessions can be ended than logins begin.
    revocations: meanOf(known.revocations, logins),
    changes: meanOf(known.changes, 0),
  };
  const peak = {
    logins: mean.logins * usage.peak,
    refreshes: mean.refreshes * usage.peak,
    coldRefreshes: mean.coldRefreshes * usage.peak,
    verifies: mean.verifies * usage.peak,
    revocations: mean.revocations * usage.peak,
    changes: mean.changes * usage.peak,
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

/** How the requests meet the replicas. */
export interface Spread {
  replicas: number;
  /** Share of the verifies that are the first of their token on a replica, 0 to 1. */
  firstVerifies: number;
  feedReaders: number;
}

/** Reads of the stream for the feed's readers, in a second (composition/revocation-feed.ts). */
export const FEED_READS = 5;

/** What requests cost, without what replicas use when idle. */
export function coresOf(rates: Rates, { replicas, firstVerifies, feedReaders }: Spread, costs: Costs): Cores {
  const { logins, coldRefreshes, verifies, revocations, changes } = rates;
  const warm = rates.refreshes - coldRefreshes;
  const { replica, redis, postgres } = costs;
  const verify = replica.verifyKnown + firstVerifies * (replica.verifyNew - replica.verifyKnown);
  const refreshing = (cost: { refresh: number; coldRefresh: number }) =>
    warm * cost.refresh + coldRefreshes * cost.coldRefresh;
  const changing = (of: keyof ChangeCost) => {
    const costOf = ({ once, eachReplica }: ChangeCost[typeof of]) => once + eachReplica * replicas;
    if (!costs.changes) return 0;
    return revocations * costOf(costs.changes.revocation[of]) + changes * costOf(costs.changes.user[of]);
  };
  return {
    loop:
      (verifies * verify +
        refreshing(replica) +
        changing('replica') +
        feedReaders * readerCost(revocations + changes, costs)) /
      1e6,
    hash: (logins * replica.login) / 1e6,
    redis: (verifies * redis.verify + refreshing(redis) + logins * redis.login + changing('redis')) / 1e6,
    postgres: (refreshing(postgres) + logins * postgres.login + changing('postgres')) / 1e6,
  };
}

/** Microseconds a second. Events between two reads of the stream share one write to each reader. */
function readerCost(events: number, { reader }: Costs): number {
  if (!reader) return 0;
  return reader.quiet + Math.min(1, events / FEED_READS) * (reader.busy - reader.quiet);
}

/**
 * Share of the verifies that check a signature. Of the n verifies of an access token, each replica checks its first
 * one. If a proxy deals requests at random to R replicas, R(1 - (1 - 1/R)^n) of them see the token.
 * @param remembered tokens that a replica surely remembers. If more are in use, it may have forgotten each.
 */
export function firstVerifiesOf(
  { verifies, refreshes, logins }: Rates,
  { replicas, inUse, remembered }: { replicas: number; inUse: number; remembered: number },
): number {
  if (!isRemembered(inUse, remembered)) return 1;
  // Each refresh, and each login, makes an access token.
  const perToken = verifies / (refreshes + logins);
  if (perToken <= 1) return 1;
  // An endless `perToken` means long-lived tokens alone.
  return Number.isFinite(perToken) ? (replicas * (1 - (1 - 1 / replicas) ** perToken)) / perToken : 0;
}

/** Whether every replica remembers the access tokens in use: each may see all of them. */
export function isRemembered(inUse: number, remembered: number): boolean {
  return inUse <= remembered;
}
