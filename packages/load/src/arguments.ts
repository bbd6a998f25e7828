import { parseArgs, type ParseArgsConfig } from 'node:util';
import { readAccounts, textOf, type Account } from './accounts.ts';
import { givenVariables, type Environment } from './environment.ts';
import type { ServiceClient } from './exchange.ts';
import { LoadError } from './load-error.ts';
import { HERD, SCENARIO_NAMES, SCENARIOS, type ScenarioName } from './scenarios.ts';
import { readTarget } from './target.ts';

/** How the devices get their accounts at a service that the kit did not start. */
export type Accounts =
  /** It creates them, and deletes them after the run. */
  | { from: 'client'; client: ServiceClient }
  | { from: 'sign-up' }
  /** `hint` says what to do if one cannot log in. */
  | { from: 'list'; list: readonly Account[]; hint: string };

/** @returns the accounts that Latchkey's repository seeds. Only there can a run do without a service and accounts. */
export type ListSeeded = (users: number) => Accounts;

/** What a run must keep, beside the promises. Each is null if the run need not. */
export interface Thresholds {
  /** The p99 of all operations, in milliseconds. */
  max_p99_ms: number | null;
  /** The share of failed requests. */
  max_errors: number | null;
  /** The p99 of how late the generator sent its requests, in milliseconds. */
  max_late_ms: number | null;
}

/** The words of `merge`. */
export interface MergeArguments {
  /** Files, or folders that hold a `report.json`. */
  reports: readonly string[];
  thresholds: Thresholds;
  report: string;
}

export interface RunArguments {
  scenario: ScenarioName;
  /** null for a service of the repository's own. */
  url: string | null;
  /** null for a service of the repository's own. */
  accounts: Accounts | null;
  users: number;
  seconds: number;
  /** 0 for herd, which has no rate. */
  rate: number;
  thresholds: Thresholds;
  report: string;
  lost: number;
  connections: number;
}

export const USAGE = `latchkey-load SCENARIO --url URL [--sign-up | --accounts FILE]
  [--users N] [--seconds N] [--rate N] [--report DIR] [--yes-i-own-this]
  [--max-p99 MS] [--max-errors SHARE] [--max-late MS]
latchkey-load merge REPORT... [--report DIR] [--max-p99 MS] ...   makes one report of several testers

Scenarios: ${Object.keys(SCENARIOS).join(', ')}.
--url URL           the origin of the service to test
--sign-up           get accounts by public signup, as many as its limits allow
--accounts FILE     use existing accounts: lines of username,password
--users N           number of devices, each with a user of its own (LOAD_USERS)
--seconds N         length of the run (LOAD_SECONDS)
--rate N            arrivals a second at the peak (LOAD_RATE)
--report DIR        folder for the report (reports/load; for a merge, reports/merged)
--max-p99 MS        fail if 1% of the requests took longer
--max-errors SHARE  fail if a larger share of the requests failed: 0.01 is one of a hundred
--max-late MS       fail if the tester itself sent 1% of its requests later, since it then measures itself
--yes-i-own-this    confirm that a service beyond this machine is yours
--help, --version

Without --sign-up and --accounts, the tester creates the accounts as a registered service with the right
users.write: set LATCHKEY_CLIENT_ID, and LATCHKEY_CLIENT_SECRET or LATCHKEY_CLIENT_SECRET_FILE.
Other settings: LOAD_LOST, the share of answers that devices lose on purpose (0.02); LOAD_CONNECTIONS, the most
connections at once (256).
`;

/** As many as a proxy keeps open to a service. */
const CONNECTIONS = 256;

/** @throws LoadError with what is wrong */
export function readArguments(
  words: readonly string[],
  env: Environment,
  listSeeded?: ListSeeded,
): RunArguments {
  const given = givenVariables(env);
  const { values, positionals } = parseWords(words);
  const scenario = scenarioOf(positionals, listSeeded ? SCENARIO_NAMES : DEPLOYED);
  const usual =
    scenario === 'herd' ? { ...HERD, rate: 1 } : { ...SCENARIOS[scenario], connections: CONNECTIONS };
  const url = values.url === undefined ? null : readTarget(values.url, values['yes-i-own-this']);
  if (url === null && (!listSeeded || values.accounts !== undefined || values['sign-up']))
    throw new LoadError('--url is missing: give the origin of the service, such as https://auth.example.com');
  if (scenario === 'herd' && url !== null)
    throw new LoadError('herd causes an outage, so it needs a service of its own: leave out --url');
  const accounts = url === null ? null : accountsOf(values, given, listSeeded);
  const listed = accounts?.from === 'list' ? accounts.list.length : Infinity;
  const users = readUsers(values.users ?? given.LOAD_USERS, Math.min(usual.users, listed));
  if (users > listed) throw new LoadError(`--users: ${users}, and --accounts has ${listed}`);
  return {
    scenario,
    url,
    users,
    accounts: accounts ?? (url === null ? null : (listSeeded?.(users) ?? null)),
    seconds: positive('--seconds', values.seconds ?? given.LOAD_SECONDS, usual.seconds),
    rate: scenario === 'herd' ? 0 : positive('--rate', values.rate ?? given.LOAD_RATE, usual.rate),
    thresholds: thresholdsOf(values, scenario),
    report: values.report ?? 'reports/load',
    lost: shareOf(given.LOAD_LOST),
    connections: Math.ceil(positive('LOAD_CONNECTIONS', given.LOAD_CONNECTIONS, usual.connections, 1e5)),
  };
}

/** @param words after `merge`. @throws LoadError with what is wrong */
export function readMergeArguments(words: readonly string[]): MergeArguments {
  const { values, positionals: reports } = parsed(words, { report: TEXT, ...LIMITS });
  if (reports.length === 0) throw new LoadError('merge: name the reports, or their folders');
  return { reports, thresholds: thresholdsOf(values), report: values.report ?? 'reports/merged' };
}

function thresholdsOf(
  values: Partial<Record<keyof typeof LIMITS, string | undefined>>,
  scenario?: ScenarioName,
): Thresholds {
  const { 'max-p99': p99, 'max-errors': errors, 'max-late': late } = values;
  if (scenario === 'herd' && late !== undefined)
    throw new LoadError('--max-late: the herd has no schedule to be late for');
  return {
    max_p99_ms: limitOf('--max-p99', p99),
    max_errors: limitOf('--max-errors', errors, 1),
    max_late_ms: limitOf('--max-late', late),
  };
}

function limitOf(option: string, given: string | undefined, most = Infinity): number | null {
  if (given === undefined) return null;
  const value = Number(given);
  if (given.trim() === '' || !(value >= 0 && value <= most))
    throw new LoadError(
      `${option}: give ${most === 1 ? 'a share from 0 to 1' : 'milliseconds'}, not "${given}"`,
    );
  return value;
}

/** Scenarios for a service that runs already. */
const DEPLOYED = SCENARIO_NAMES.filter((name) => name !== 'herd');

function scenarioOf([name, ...rest]: readonly string[], known: readonly ScenarioName[]): ScenarioName {
  const scenario = known.find((each) => each === name);
  if (!scenario || rest.length > 0) throw new LoadError(`name one scenario: ${known.join(', ')}`);
  return scenario;
}

type Values = ReturnType<typeof parseWords>['values'];

/** @returns null for seeded ones. */
function accountsOf(
  { accounts: file, 'sign-up': isSignUp }: Values,
  given: Environment,
  listSeeded?: ListSeeded,
): Accounts | null {
  if (file !== undefined && isSignUp) throw new LoadError('--sign-up or --accounts: take one');
  if (isSignUp) return { from: 'sign-up' };
  if (file !== undefined)
    return { from: 'list', list: readAccounts(file), hint: `its line in ${file} is wrong` };
  const client = readClient(given);
  if (client) return { from: 'client', client };
  if (listSeeded) return null;
  throw new LoadError(
    `the devices need accounts: set ${ID}, and ${SECRET} or ${SECRET}_FILE, of a client with the right users.write; or take --sign-up or --accounts FILE`,
  );
}

const [ID, SECRET] = ['LATCHKEY_CLIENT_ID', 'LATCHKEY_CLIENT_SECRET'];

function readClient(given: Environment): ServiceClient | null {
  const { [ID]: clientId = '', [SECRET]: plain = '', [`${SECRET}_FILE`]: file = '' } = given;
  if (clientId === '' && plain === '' && file === '') return null;
  const secret = file === '' ? plain : textOf(`${SECRET}_FILE`, file).trim();
  if (clientId === '' || secret === '' || (plain !== '' && file !== ''))
    throw new LoadError(`set ${ID}, and one of ${SECRET} and ${SECRET}_FILE, with text in it`);
  return { clientId, secret };
}

const TEXT = { type: 'string' } as const;
const FLAG = { type: 'boolean', default: false } as const;
const LIMITS = { 'max-p99': TEXT, 'max-errors': TEXT, 'max-late': TEXT } as const;

/** @throws LoadError for an unknown option, and for one without its value */
export function parseWords(words: readonly string[]) {
  return parsed(words, {
    url: TEXT,
    users: TEXT,
    seconds: TEXT,
    rate: TEXT,
    report: TEXT,
    accounts: TEXT,
    'sign-up': FLAG,
    'yes-i-own-this': FLAG,
    ...LIMITS,
  });
}

function parsed<Options extends NonNullable<ParseArgsConfig['options']>>(
  words: readonly string[],
  options: Options,
) {
  try {
    return parseArgs({ args: [...words], allowPositionals: true, options });
  } catch (error) {
    const [line = ''] = (error as Error).message.split(/\.\s|\n/);
    const [, option] = /^Option '(--[a-z\d-]+).*' argument is ambiguous/.exec(line) ?? [];
    throw new LoadError(option === undefined ? line : `${option}: its value may not begin with a dash`);
  }
}

/** A number of devices. @throws LoadError */
export function readUsers(given: string | undefined, usual: number): number {
  return Math.ceil(positive('--users', given, usual, 1e7));
}

function positive(
  option: string,
  given: string | undefined,
  usual: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const value = Number(given === undefined || given === '' ? usual : given);
  if (!(value > 0)) throw new LoadError(`${option}: not a number above 0: ${String(given)}`);
  if (value > most) throw new LoadError(`${option}: ${value} is above the maximum of ${most}`);
  return value;
}

function shareOf(given: string | undefined): number {
  const share = Number(given === undefined || given === '' ? 0.02 : given);
  if (!(share >= 0 && share < 1))
    throw new LoadError(`LOAD_LOST: not a share from 0 to below 1: ${String(given)}`);
  return share;
}
