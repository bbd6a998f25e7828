import type { Costs } from '../../src/domain/sizing/costs.ts';
import { count, fixed, type Table } from '../table.ts';
import type { Figure } from './measure.ts';
import { planOf } from './planned.ts';
import type { LargeFigure, ScaleDocument } from './scale-document.ts';

const GIB = 1024 ** 3;
/** Installations larger than what was measured. */
const SIMULATED = [10_000_000, 100_000_000];

/** What many users cost, beside what few do. */
export function largeTable(large: readonly LargeFigure[], { sessions, cold }: ScaleDocument): Table {
  const few = [...(sessions?.figures[0]?.figures ?? []), ...(cold?.figures ?? [])];
  const row = (users: number | string, figure: Figure) => [
    figure.operation,
    users,
    figure.micros,
    figure.redisMicros,
    figure.postgresMicros,
  ];
  return {
    title: 'Many users in PostgreSQL',
    head: ['operation', 'users', 'replica CPU µs', 'Redis CPU µs', 'PostgreSQL CPU µs'],
    rows: large.flatMap(({ users, figures }) =>
      figures.flatMap((figure) => {
        const beside = few.find(({ operation }) => operation === figure.operation);
        return [...(beside ? [row('below 100,000', beside)] : []), row(users, figure)];
      }),
    ),
  };
}

/** The costs of the plan, with those that so many users change. */
function costsOf({ users, bytes, figures }: LargeFigure, costs: Costs): Costs {
  const of = (operation: Figure['operation']) => {
    const found = figures.find((each) => each.operation === operation);
    if (!found) throw new Error(`not measured: ${operation}`);
    return found;
  };
  const [refresh, coldRefresh] = [of('refresh'), of('cold refresh')];
  const medians = (name: 'micros' | 'redisMicros' | 'postgresMicros') => ({
    refresh: refresh[name].median,
    coldRefresh: coldRefresh[name].median,
  });
  return {
    ...costs,
    replica: { ...costs.replica, ...medians('micros') },
    redis: { ...costs.redis, ...medians('redisMicros') },
    postgres: { ...costs.postgres, ...medians('postgresMicros') },
    bytes: { ...costs.bytes, user: bytes.users / users, knownDevice: bytes.devices / users },
  };
}

/** What one PostgreSQL and one Redis Cluster carry for more users, if a request costs what it did with the most users. */
export function carriedTable(large: readonly LargeFigure[], costs: Costs): Table {
  const most = large.at(-1);
  if (!most) return { title: '', head: [], rows: [] };
  const plans = SIMULATED.map((users) => planOf(users, costsOf(most, costs)));
  const row = (what: string, read: (plan: (typeof plans)[number]) => string) => [what, ...plans.map(read)];
  return {
    title: `Simulated from the measurement with ${count(most.users)} users, busiest second`,
    head: ['', ...SIMULATED.map((users) => `${count(users)} users`)],
    rows: [
      row('verifies/s', ({ demand }) => count(demand.peak.verifies)),
      row(
        'refreshes/s, of these cold',
        ({ demand: { peak } }) => `${count(peak.refreshes)}, ${count(peak.coldRefreshes)}`,
      ),
      row('logins/s', ({ demand }) => fixed(demand.peak.logins, 1)),
      row('replicas', ({ replicas }) => count(replicas.peak)),
      row('first verifies', ({ firstVerifies }) => `${count(100 * firstVerifies)}%`),
      row('Redis: cores of all masters', ({ cores }) => fixed(cores.redis, 1)),
      row('Redis: masters', ({ redis }) => count(redis.masters)),
      row('Redis: `maxmemory` of each', ({ redis }) => `${fixed(redis.maxMemory / GIB, 1)} GiB`),
      row('PostgreSQL: cores for connections', ({ cores }) => fixed(cores.postgres, 1)),
      row('PostgreSQL: rows written/s', ({ postgres }) => count(postgres.rowWrites)),
      row('PostgreSQL: rows of `tokens`', ({ postgres }) => count(postgres.tokens)),
      row('PostgreSQL: size', ({ postgres }) => `${count(postgres.bytes / GIB)} GiB`),
      row('PostgreSQL: connections', ({ connections }) => count(connections.total)),
    ],
  };
}
