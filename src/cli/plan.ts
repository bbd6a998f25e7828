import { BASE_MEMORY, loadSettings, hashMemoryOf, type Environment } from '../config/config.ts';
import { COSTS } from '../domain/sizing/costs.ts';
import { rememberedTokens } from '../domain/sizing/remembered-tokens.ts';
import { makePlan, type Settings, type Plan } from '../domain/sizing/plan.ts';
import type { Command } from './command.ts';
import type { Usage, Rates } from '../domain/sizing/demand.ts';
import { UsageError, type Values } from './arguments.ts';

/** `latchkey plan`: sizes an installation. It asks no store. */
export const run: Command = ({ env, values }) => {
  const { usage, plan, settings } = planFor(values, env);
  return Promise.resolve({ result: { usage, ...plan }, text: describePlan(usage, plan, settings) });
};

/** @param costs by default, those of an installation of usual size. */
export function planFor(
  values: Values,
  env: Environment,
  costs = COSTS,
): { usage: Usage; settings: Settings; plan: Plan } {
  const usage = readUsage(values);
  const { settings, login } = ownFigures(env);
  const plan = makePlan(usage, settings, { ...costs, replica: { ...costs.replica, login } });
  return { usage, settings, plan };
}

/** The settings of the environment that change a plan, and the cost of a login with its password hash. @throws ConfigError */
function ownFigures(env: Environment): { settings: Settings; login: number } {
  const hashing = [...COST_SETTINGS, 'HASH_MEMORY', 'HASH_CONCURRENCY', 'UV_THREADPOOL_SIZE'] as const;
  const others = [
    'DATABASE_POOL',
    'SESSION_CACHE_TTL',
    'REFRESH_TOKEN_TTL',
    'REVOCATION_READERS_MAX',
  ] as const;
  const config = loadSettings(env, ...hashing, ...others);
  const usual = workOf(loadSettings({}, ...COST_SETTINGS));
  const login = (COSTS.replica.login * workOf(config)) / usual;
  return {
    settings: {
      processMemory: BASE_MEMORY,
      hashMemory: hashMemoryOf(config),
      hashConcurrency: config.HASH_CONCURRENCY,
      databasePool: config.DATABASE_POOL,
      sessionCacheTtl: config.SESSION_CACHE_TTL,
      refreshTokenTtl: config.REFRESH_TOKEN_TTL,
      rememberedTokens,
      readersMax: config.REVOCATION_READERS_MAX,
    },
    login,
  };
}

const COST_SETTINGS = ['SCRYPT_LOG_N', 'SCRYPT_R', 'SCRYPT_P'] as const;

/** The work of scrypt is proportional to this. */
function workOf(config: { SCRYPT_LOG_N: number; SCRYPT_R: number; SCRYPT_P: number }): number {
  return 2 ** config.SCRYPT_LOG_N * config.SCRYPT_R * config.SCRYPT_P;
}

/** Seconds of a unit. */
const UNITS: Partial<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
/** More accounts than people. A larger number is a slip. */
const MOST_USERS = 20e9;

/** More than any installation. Larger numbers are slips. */
const MOST_A_SECOND = 1e9;
const MOST_READERS = 1e6;

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
function readUsage(given: Values): Usage {
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
    feedReaders: wholeNumber(values, 'feed-readers', 0, MOST_READERS),
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
    revocations: figure('revocations-per-second', 0),
    changes: figure('changes-per-second', 0),
  };
  return Object.fromEntries(Object.entries(known).filter(([, value]) => value !== undefined));
}

/** The options with one text, which neither flags nor lists have. */
type Name = {
  [Each in keyof Values]-?: Values[Each] extends string | undefined ? Each : never;
}[keyof Values];

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

const LACKING: Record<Plan['unknown'][number], string> = {
  revocations: 'revocations',
  changes: 'changed users',
  feedReaders: 'feed readers',
};

type Row = [what: string, value: string, reason: string];

/** A plan as a table with the reason of each figure. */
function describePlan(usage: Usage, plan: Plan, settings: Settings): string {
  const parts: [string, Row[]][] = [
    ['Load', loadRows(usage, plan)],
    ['Replicas', replicaRows(plan, settings)],
    ['Redis', redisRows(plan)],
    ['PostgreSQL', postgresRows(usage, plan)],
  ];
  const rows = parts.flatMap(([, each]) => each);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = ([what, value, reason]: Row) =>
    `  ${what.padEnd(widths[0] ?? 0)}  ${value.padStart(widths[1] ?? 0)}  ${reason}`.trimEnd();
  const text = parts.map(([title, each]) => [title, ...each.map(line)].join('\n'));
  return [
    ...text,
    'CPU times are those of the machine in docs/performance.md: measure yours with npm run scale.',
  ].join('\n\n');
}

function loadRows({ feedReaders }: Usage, plan: Plan): Row[] {
  const { demand, cores, firstVerifies, unknown, replicas } = plan;
  const { mean, peak } = demand;
  const row = (name: keyof Rates, reason: string): Row => [
    `${name}/s at the peak`,
    figure(peak[name]),
    `${figure(mean[name])} on average; ${reason}`,
  ];
  return [
    row('logins', 'signups count too'),
    row('refreshes', 'the first one when a visit begins'),
    [
      'of these, cold',
      figure(peak.coldRefreshes),
      `${figure(mean.coldRefreshes)} on average; Redis has forgotten the session`,
    ],
    row('verifies', peak.verifies === 0 ? 'services verify tokens themselves' : 'asked by services'),
    ...(peak.verifies === 0
      ? []
      : [
          [
            'of these, check a signature',
            `${figure(firstVerifies * 100)}%`,
            demand.inUse > replicas.rememberedTokens
              ? 'more tokens are in use than a replica remembers'
              : 'the first verify of a token on each replica',
          ] satisfies Row,
        ]),
    row('revocations', 'sessions and long-lived tokens that are ended'),
    row('changes', 'users whose names, address, roles or status change'),
    ['feed readers', figure(feedReaders), 'on all replicas'],
    ['sessions in use at once', figure(demand.inUse), 'at the peak'],
    ['cores for the event loops', figure(cores.loop), 'at the peak'],
    [
      'cores for logins',
      figure(cores.hash),
      'at the peak; password hashes, on threads beside the event loops',
    ],
    ...(unknown.length === 0
      ? []
      : [
          [
            'not in these cores',
            'unknown',
            `${unknown.map((name) => LACKING[name]).join(', ')}: this version has no measurement of their cost`,
          ] satisfies Row,
        ]),
  ];
}

function replicaRows(plan: Plan, settings: Settings): Row[] {
  const { replicas, connections, demand, readersOfReplica } = plan;
  const { autoscaler, hashConcurrency } = replicas;
  const hash = `${mib(settings.hashMemory)} a hash`;
  return [
    [
      'replicas at the peak',
      figure(replicas.peak),
      `so that each uses ${autoscaler.targetCpu}% of its request`,
    ],
    ['CPU request', figure(replicas.cpu), 'one core for the event loop; no limit, for the hashes'],
    [
      'memory request and limit',
      mib(replicas.memory),
      `${mib(settings.processMemory)} and ${hash}, 85% full at most`,
    ],
    [
      'HASH_CONCURRENCY',
      figure(hashConcurrency),
      `${figure(replicas.loginsAtMost)} logins/s of a replica at most`,
    ],
    ['HPA minReplicas', figure(autoscaler.min), 'for the average, and two at least'],
    ['HPA maxReplicas', figure(autoscaler.max), 'one and a half times the peak'],
    ['HPA CPU target', `${autoscaler.targetCpu}%`, 'as in k8s/base'],
    ['DATABASE_POOL', figure(connections.pool), 'connections of a replica; one more probes'],
    ['connections at most', figure(connections.total), connectionReason(connections.exceedsDefault)],
    [
      'verified tokens remembered',
      figure(replicas.rememberedTokens),
      `at least; ${figure(demand.inUse)} are in use`,
    ],
    [
      'feed readers of a replica',
      figure(readersOfReplica),
      `${readersOfReplica > settings.readersMax ? 'too many' : 'at most'}: REVOCATION_READERS_MAX is ${figure(settings.readersMax)}`,
    ],
  ];
}

function connectionReason(exceedsDefault: boolean): string {
  return exceedsDefault
    ? 'more than the default of 100: raise max_connections, or use PgBouncer (k8s/README.md)'
    : 'in a rollout; fits into max_connections = 100';
}

function redisRows({ redis, cores }: Plan): Row[] {
  const mode = redis.masters === 1 ? 'one server, or Sentinel' : 'Redis Cluster';
  return [
    [
      'masters',
      figure(redis.masters),
      `${mode}; ${figure(cores.redis)} cores at the peak, half of each used`,
    ],
    ['sessions held', figure(redis.sessions), 'used within SESSION_CACHE_TTL'],
    ['bytes of these', mib(redis.bytes), 'with their users'],
    ['bytes of revoked tokens', mib(redis.revokedBytes), 'tombstones, for two SESSION_CACHE_TTL'],
    [
      'maxmemory of a master',
      mib(redis.maxMemory),
      'half as much again, and a flood of logins; 192 MiB at least',
    ],
  ];
}

function postgresRows({ growth }: Usage, { postgres, cores }: Plan): Row[] {
  return [
    ['cores', figure(cores.postgres), 'of its connections, at the peak; without background processes'],
    [
      'rows written/s',
      figure(postgres.rowWrites),
      'at the peak, at most: three a login, two for each other change',
    ],
    ['rows of tokens', figure(postgres.tokens), 'with ended ones that purge keeps'],
    ['rows of known_devices', figure(postgres.knownDevices), 'at most: one for each login of 90 days'],
    ['size', mib(postgres.bytes), 'users, tokens and known devices with indexes'],
    ['growth in a month', mib(postgres.monthlyBytes), `${figure(growth * 100)}% more users`],
    [
      'growth in the first months',
      mib(postgres.firstMonthlyBytes),
      'until purge deletes as much as logins add',
    ],
    ['partition tokens', postgres.partition ? 'yes' : 'no', 'see docs/performance.md'],
  ];
}

/** Three digits are more than a plan knows. */
function figure(value: number): string {
  const rounded = value >= 1000 ? Math.round(value) : Number(value.toPrecision(3));
  return rounded.toLocaleString('en-US', { maximumFractionDigits: 3 });
}

function mib(bytes: number): string {
  const size = bytes / 1024 ** 2;
  return size >= 10_240 ? `${figure(size / 1024)} GiB` : `${figure(Math.ceil(size))} MiB`;
}
