import { REMEMBERED } from '../domain/sizing/costs.ts';
import type { Rates, Usage } from '../domain/sizing/demand.ts';
import type { Plan, Settings } from '../domain/sizing/plan.ts';

type Row = [what: string, value: string, reason: string];

/** A plan as a table with the reason of each figure. */
export function describePlan(usage: Usage, plan: Plan, settings: Settings): string {
  const parts: [string, Row[]][] = [
    ['Load', loadRows(plan)],
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
    'CPU times are those of the machine in docs/scaling.md: measure yours with npm run scale.',
  ].join('\n\n');
}

function loadRows({ demand, cores }: Plan): Row[] {
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
    ['sessions in use at once', figure(demand.inUse), 'at the peak'],
    ['cores for the event loops', figure(cores.loop), 'at the peak'],
    [
      'cores for logins',
      figure(cores.hash),
      'at the peak; password hashes, on threads beside the event loops',
    ],
  ];
}

function replicaRows({ replicas, connections, remembersTokens }: Plan, settings: Settings): Row[] {
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
      'signature of each verify',
      remembersTokens ? 'remembered' : 'checked',
      `a replica remembers ${figure(REMEMBERED)} tokens or more`,
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
    ['rows written/s', figure(postgres.rowWrites), 'at the peak: two a refresh and three a login at most'],
    ['rows of tokens', figure(postgres.tokens), 'with ended ones that purge keeps'],
    ['rows of known_devices', figure(postgres.knownDevices), 'at most: one for each login of 90 days'],
    ['size', mib(postgres.bytes), 'users, tokens and known devices with indexes'],
    ['growth in a month', mib(postgres.monthlyBytes), `${figure(growth * 100)}% more users`],
    [
      'growth in the first months',
      mib(postgres.firstMonthlyBytes),
      'until purge deletes as much as logins add',
    ],
    ['partition tokens', postgres.partition ? 'yes' : 'no', 'see docs/scaling.md'],
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
