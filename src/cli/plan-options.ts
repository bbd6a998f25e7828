import type { Usage } from '../domain/sizing/demand.ts';
import { UsageError, type Values } from './arguments.ts';

/** Seconds of a unit. */
const UNITS: Partial<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
/** More accounts than people. A larger number is a slip. */
const MOST_USERS = 20e9;

/** More than any installation. A larger number is a slip. */
const MOST_A_SECOND = 1e9;

/** What is assumed unless a habit or a figure of the busiest second is given. */
const ASSUMED = {
  'visits-per-day': '4',
  'refresh-every': '10m',
  'verifies-per-minute': '6',
  'logins-per-day': '0.1',
};

/** Each habit, and the figure of the busiest second that replaces it. */
const INSTEAD = {
  'visits-per-day': 'sessions-in-use',
  'refresh-every': 'refreshes-per-second',
  'verifies-per-minute': 'verifies-per-second',
  'logins-per-day': 'logins-per-second',
} as const;

/** Reads the options of `latchkey plan`. @throws UsageError that names the option and its range. */
export function readUsage(given: Values): Usage {
  if (given.users === undefined) throw new UsageError('plan needs --users N');
  for (const [habit, figure] of Object.entries(INSTEAD) as [keyof typeof INSTEAD, Name][])
    if (given[habit] !== undefined && given[figure] !== undefined)
      throw new UsageError(`--${figure} replaces --${habit}: give one of them`);
  const values = { ...given };
  for (const [habit, text] of Object.entries(ASSUMED) as [keyof typeof ASSUMED, string][])
    values[habit] ??= text;
  const usage = {
    users: wholeNumber(values, 'users', 1, MOST_USERS),
    activeShare: share(values, 'active-share'),
    visitsPerDay: number(values, 'visits-per-day', 0.01, 1000),
    visitSeconds: duration(values, 'visit-length', 86_400),
    refreshEvery: duration(values, 'refresh-every', 366 * 86_400),
    verifiesPerMinute: number(values, 'verifies-per-minute', 0, 10_000),
    loginsPerDay: number(values, 'logins-per-day', 0, 1000),
    peak: number(values, 'peak', 1, 100),
    sessionsPerUser: number(values, 'sessions-per-user', 0.01, 10_000),
    growth: share(values, 'growth'),
    known: knownOf(values),
  };
  const inUse = usage.visitsPerDay * usage.visitSeconds;
  if (inUse > 86_400)
    throw new UsageError(
      `--visits-per-day ${values['visits-per-day']} of --visit-length ${values['visit-length']} are more than a day`,
    );
  const sessions = usage.users * usage.sessionsPerUser;
  const { sessionsInUse = 0, refreshes = 0 } = usage.known;
  if (sessionsInUse > sessions)
    throw new UsageError(
      `--sessions-in-use ${sessionsInUse} are more than --users x --sessions-per-user, ${sessions}`,
    );
  if (sessionsInUse > 0 && refreshes > sessionsInUse)
    throw new UsageError(`--refreshes-per-second ${refreshes} are more than one for each session in use`);
  return usage;
}

/** The figures of the busiest second that were given. */
function knownOf(values: Values): Usage['known'] {
  const figure = (name: Name, least: number) =>
    values[name] === undefined ? undefined : number(values, name, least, MOST_A_SECOND);
  const known = {
    sessionsInUse: figure('sessions-in-use', 1),
    verifies: figure('verifies-per-second', 0),
    refreshes: figure('refreshes-per-second', 0),
    logins: figure('logins-per-second', 0),
  };
  return Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined));
}

type Name = Exclude<
  keyof Values,
  'json' | 'help' | 'version' | 'force' | 'end-all' | 'keep-sessions' | 'yes' | 'again' | 'finish'
>;

function number(values: Values, name: Name, least: number, most: number): number {
  const text = values[name] ?? '';
  const value = /^\d+(\.\d+)?(e\d+)?$/.test(text) ? Number(text) : NaN;
  if (value >= least && value <= most) return value;
  throw new UsageError(`--${name} must be a number from ${least} to ${most}, not "${text}"`);
}

function wholeNumber(values: Values, name: Name, least: number, most: number): number {
  const value = number(values, name, least, most);
  if (Number.isInteger(value)) return value;
  throw new UsageError(`--${name} must be a whole number, not "${values[name] ?? ''}"`);
}

/** `0.2` or `20%`. */
function share(values: Values, name: Name): number {
  const text = values[name] ?? '';
  const [, digits, percent] = /^(\d+(?:\.\d+)?)(%?)$/.exec(text) ?? [];
  const value = Number(digits) / (percent ? 100 : 1);
  if (value >= 0 && value <= 1) return value;
  throw new UsageError(`--${name} must be a share such as 0.2 or 20%, not "${text}"`);
}

/** `90s`, `15m`, `2h` or `1d`, in seconds. */
function duration(values: Values, name: Name, most: number): number {
  const text = values[name] ?? '';
  const [, digits, unit = ''] = /^(\d+(?:\.\d+)?)([smhd])$/.exec(text) ?? [];
  const seconds = Number(digits) * (UNITS[unit] ?? NaN);
  if (seconds >= 1 && seconds <= most) return seconds;
  throw new UsageError(`--${name} must be a time such as 90s, 15m or 2h, not "${text}"`);
}
