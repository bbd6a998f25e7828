import { parseArguments } from '../../src/cli/arguments.ts';
import { planFor } from '../../src/cli/plan.ts';
import type { Costs } from '../../src/domain/sizing/costs.ts';
import type { Plan } from '../../src/domain/sizing/plan.ts';
import { fixed, mib, reportText } from '../table.ts';

const USERS = [10_000, 100_000, 1_000_000, 10_000_000];
const GIB = 1024 ** 3;

/** `latchkey plan` with default habits and settings. */
export function planOf(users: number, costs: Costs, ...habits: string[]): Plan {
  const { values } = parseArguments(['plan', '--users', String(users), ...habits]);
  return planFor(values, {}, costs).plan;
}

/** For the operator's first look at docs/performance.md. */
export function plannedText(costs: Costs): string {
  const head = [
    'users',
    'verifies/s',
    'replicas of one core',
    'if services verify',
    'memory of each',
    'Redis',
    'PostgreSQL',
    'connections',
  ];
  const rows = USERS.map((users) => {
    const { demand, replicas, redis, postgres, connections } = planOf(users, costs);
    const alone = planOf(users, costs, '--verifies-per-minute', '0');
    return [
      users,
      demand.peak.verifies,
      replicas.peak,
      alone.replicas.peak,
      mib(replicas.memory),
      `${redis.masters > 1 ? `${redis.masters} × ` : ''}${mib(redis.maxMemory)}`,
      postgres.bytes < GIB ? mib(postgres.bytes) : `${fixed(postgres.bytes / GIB, 1)} GiB`,
      connections.total,
    ];
  });
  return reportText(
    [{ title: 'What the busiest second needs', head, rows }],
    [],
    'Default settings and habits.',
  );
}
