import type { Usage } from '../domain/sizing/demand.ts';
import { UsageError, type Values } from './arguments.ts';

/** Seconds of a unit. */
const UNITS: Partial<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
/** More accounts than people. A larger number is a slip. */
const MOST_USERS = 20e9;

/** Reads the options of `latchkey plan`. @throws UsageError that names the option and its range. */
export function readUsage(values: Values): Usage {
  if (values.users === undefined) throw new UsageError('plan needs --users N');
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
  };
  const inUse = usage.visitsPerDay * usage.visitSeconds;
  if (inUse > 86_400)
    throw new UsageError(
      `--visits-per-day ${values['visits-per-day']} of --visit-length ${values['visit-length']} are more than a day`,
    );
  return usage;
}

type Name = Exclude<keyof Values, 'json' | 'help' | 'force' | 'end-all' | 'yes' | 'again' | 'finish'>;

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
