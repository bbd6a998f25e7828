import { parseArgs } from 'node:util';
import { LoadError } from './prepare.ts';
import { HERD, SCENARIO_NAMES, SCENARIOS, type ScenarioName } from './scenarios.ts';
import { readTarget } from './target.ts';

export const USAGE = `npm run load -- SCENARIO [--url URL] [--users N] [--seconds N] [--rate N] [--report DIR]
npm run load -- seed --users N

Scenarios: ${SCENARIO_NAMES.join(', ')}.
--url URL      the service; without it, one is started on the embedded default
--users N      devices, each of its own user (LOAD_USERS)
--seconds N    length of the run; of herd's outage (LOAD_SECONDS)
--rate N       arrivals a second at the peak (LOAD_RATE)
--report DIR   where report.html and report.json go (reports/load)
--yes-i-own-this   the service or the database beyond this machine is yours

Other settings: LOAD_LOST, the share of answers that devices lose (0.02); LOAD_CONNECTIONS (256; herd 10,000).
docs/load-testing.md says more.
`;

/** As many as a proxy keeps open to a service. */
const CONNECTIONS = 256;

export interface SeedArguments {
  command: 'seed';
  users: number;
  /** The database may be on another machine. */
  isOwned: boolean;
}

export interface RunArguments {
  command: 'run';
  scenario: ScenarioName;
  /** null for a service of the kit's own. */
  url: string | null;
  users: number;
  seconds: number;
  /** 0 for herd, which has no rate. */
  rate: number;
  report: string;
  lost: number;
  connections: number;
}

/** @throws LoadError with what is wrong */
export function readArguments(
  words: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): SeedArguments | RunArguments {
  const { values, positionals } = parse(words);
  const [name = '', ...rest] = positionals;
  const scenario = SCENARIO_NAMES.find((each) => each === name);
  if ((name !== 'seed' && !scenario) || rest.length > 0)
    throw new LoadError(`name one scenario, or seed: ${SCENARIO_NAMES.join(', ')}`);
  const number = (option: string, given: string | undefined, usual: number, most = Infinity) => {
    const value = Number(given === undefined || given === '' ? usual : given);
    if (!(value > 0)) throw new LoadError(`${option}: not a number above 0: ${String(given)}`);
    if (value > most) throw new LoadError(`${option}: ${value} is above the maximum of ${most}`);
    return value;
  };
  const users = (usual: number) => Math.ceil(number('--users', values.users ?? env.LOAD_USERS, usual, 1e7));
  if (!scenario) {
    if (values.users === undefined) throw new LoadError('seed: say how many, with --users N');
    if (values.url !== undefined)
      throw new LoadError('seed fills the database of DATABASE_URL, not a service: leave out --url');
    return { command: 'seed', users: users(0), isOwned: values['yes-i-own-this'] };
  }
  const usual =
    scenario === 'herd' ? { ...HERD, rate: 1 } : { ...SCENARIOS[scenario], connections: CONNECTIONS };
  const url = values.url === undefined ? null : readTarget(values.url, values['yes-i-own-this']);
  if (scenario === 'herd' && url !== null)
    throw new LoadError('herd causes an outage, so it needs a service of its own: leave out --url');
  return {
    command: 'run',
    scenario,
    url,
    users: users(usual.users),
    seconds: number('--seconds', values.seconds ?? env.LOAD_SECONDS, usual.seconds),
    rate: scenario === 'herd' ? 0 : number('--rate', values.rate ?? env.LOAD_RATE, usual.rate),
    report: values.report ?? 'reports/load',
    lost: shareOf(env.LOAD_LOST),
    connections: Math.ceil(number('LOAD_CONNECTIONS', env.LOAD_CONNECTIONS, usual.connections, 100_000)),
  };
}

function parse(words: readonly string[]) {
  const text = { type: 'string' } as const;
  try {
    return parseArgs({
      args: [...words],
      allowPositionals: true,
      options: {
        ...{ url: text, users: text, seconds: text, rate: text, report: text },
        'yes-i-own-this': { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new LoadError((error as Error).message);
  }
}

function shareOf(given: string | undefined): number {
  const share = Number(given === undefined || given === '' ? 0.02 : given);
  if (!(share >= 0 && share < 1))
    throw new LoadError(`LOAD_LOST: not a share from 0 to below 1: ${String(given)}`);
  return share;
}
