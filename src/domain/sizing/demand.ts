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
}

const DAY = 86_400;
/** Days of a month. */
export const MONTH = 30;

/** Requests a second, all replicas together. */
export interface Rates {
  logins: number;
  refreshes: number;
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

/** What these users ask for. A signup costs what a login costs, so it counts as one. */
export function demandOf(usage: Usage): Demand {
  const active = usage.users * usage.activeShare;
  const visits = (active * usage.visitsPerDay) / DAY;
  // A visit begins with a refresh: the access token of the last one has expired.
  const refreshesOfVisit = 1 + Math.floor(usage.visitSeconds / usage.refreshEvery);
  const signups = (usage.users * usage.growth) / (MONTH * DAY);
  const inUse = visits * usage.visitSeconds;
  const mean = {
    logins: (active * usage.loginsPerDay) / DAY + signups,
    refreshes: visits * refreshesOfVisit,
    verifies: (inUse * usage.verifiesPerMinute) / 60,
  };
  const peak = {
    logins: mean.logins * usage.peak,
    refreshes: mean.refreshes * usage.peak,
    verifies: mean.verifies * usage.peak,
  };
  // Each active user has one session in use at most: a peak cannot exceed that.
  return { mean, peak, inUse: Math.min(active, inUse * usage.peak), visits: visits * usage.peak };
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

/** @param remembered whether replicas still know the tokens that they verify (REMEMBERED). */
export function coresOf(rates: Rates, remembered: boolean, costs: Costs): Cores {
  const { logins, refreshes, verifies } = rates;
  const { replica, redis, postgres } = costs;
  const verify = remembered ? replica.verifyKnown : replica.verifyNew;
  return {
    loop: (verifies * verify + refreshes * replica.refresh) / 1e6,
    hash: (logins * replica.login) / 1e6,
    redis: (verifies * redis.verify + refreshes * redis.refresh + logins * redis.login) / 1e6,
    postgres: (refreshes * postgres.refresh + logins * postgres.login) / 1e6,
  };
}

/** Whether every replica remembers the access tokens in use: each may see all of them. */
export function isRemembered(inUse: number): boolean {
  return inUse <= REMEMBERED;
}
