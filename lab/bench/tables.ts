import { bytesTable } from './bytes.ts';
import type { BenchDocument, OperationChange } from './document.ts';
import type { FloodReport } from './flood.ts';
import type { LoginTimesReport } from './login-times.ts';
import type { MemoryReport } from './memory.ts';
import { median, type Sample } from './statistics.ts';

/** Figures as text, for the terminal and for docs/benchmarks.md. */
export interface Table {
  title: string;
  head: string[];
  rows: string[][];
}

/** Above this share of a core the generator limits the faster server, which flatters the slower one. */
const SATURATED = 0.9;
/** Above this many cores, other work used the machine while it should have been idle. */
const BUSY = 0.6;
/** Below this share of a core, something else limited the server, and requests per second mean little. */
const STARVED = 0.8;

export function tablesOf(document: BenchDocument): Table[] {
  const { flood, logins, memory, bytes } = document;
  return [
    speedTable(document),
    rulerTable(document),
    latencyTable(document),
    ...(flood ? [floodTable(flood)] : []),
    ...(logins ? [loginTable(logins)] : []),
    memoryTable(document, memory),
    ...(bytes ? [bytesTable(bytes)] : []),
    limitTable(document),
  ].filter(({ rows }) => rows.length > 0);
}

function speedTable({ speed }: BenchDocument): Table {
  return {
    title: 'Speed',
    head: [
      ...['operation', 'requests/s', 'CPU µs each'],
      ...['the floor’s', 'requests/s', 'CPU µs each', 'share of the floor'],
    ],
    rows: speed.operations.map(({ operation, service, yardstick, floor, share }) => [
      ...[operation, rate(service.perSecond), rate(service.micros)],
      ...[yardstick, rate(floor.perSecond), rate(floor.micros), spread(share)],
    ]),
  };
}

function rulerTable({ speed }: BenchDocument): Table {
  return {
    title: 'The floor beside another ruler',
    head: ['', 'floor, requests/s', 'CPU µs each', 'ruler, requests/s', 'CPU µs each', 'share of the ruler'],
    rows: speed.ruler.map(({ yardstick, floor, ruler, share }) => [
      ...[yardstick, rate(floor.perSecond), rate(floor.micros)],
      ...[rate(ruler.perSecond), rate(ruler.micros), spread(share)],
    ]),
  };
}

function latencyTable({ speed }: BenchDocument): Table {
  return {
    title: 'Latency at 70% of that rate, in an open loop',
    head: ['operation', 'server', 'requests/s', 'p50 ms', 'p99 ms', 'p99.9 ms', 'generator’s own p99 ms'],
    rows: speed.latencies.map(({ operation, server, perSecond, p50, spread: p99, p999, lateP99 }) => [
      ...[operation, server, rate(perSecond), p50.toFixed(2), spread(p99), p999.toFixed(2)],
      lateP99.toFixed(2),
    ]),
  };
}

function floodTable({ ratio, ratios, perSecond, rounds }: FloodReport): Table {
  const of = (read: (round: FloodReport['rounds'][number]) => number) => median(rounds.map(read)).toFixed(2);
  const logins = (status: string) =>
    String(rounds.reduce((sum, round) => sum + (round.logins.statuses[status] ?? 0), 0));
  return {
    title: `Verify at ${perSecond.verify}/s beside ${perSecond.logins} logins a second, in an open loop`,
    head: ['', 'p50 ms', 'p99 ms', 'generator’s own p99 ms', 'logins checked', 'logins shed'],
    rows: [
      [
        'idle',
        of(({ idle }) => idle.p50),
        of(({ idle }) => idle.p99),
        of(({ idle }) => idle.lateP99),
        '',
        '',
      ],
      [
        ...['flooded', of(({ flooded }) => flooded.p50), of(({ flooded }) => flooded.p99)],
        ...[of(({ flooded }) => flooded.lateP99), logins('401'), logins('503')],
      ],
      ['ratio', '', `${ratio.toFixed(2)} (${range(ratios)})`, '', '', ''],
    ],
  };
}

function loginTable({ rounds, comparisons, alpha, shift, power }: LoginTimesReport): Table {
  const names = { known: 'wrong password', disabled: 'disabled user', planted: `planted ${shift * 100}%` };
  const unknown = median(rounds.map((round) => round.unknown));
  return {
    title: `Failed logins beside one of an unknown name (${unknown.toFixed(0)} ms), while old hashes are stored`,
    head: ['kind', 'difference', 'p', `found at p < ${alpha}`, `power to find ${shift * 100}%`],
    rows: comparisons.map(({ kind, difference, p }) => [
      ...[names[kind], percent(difference), p < alpha ? p.toExponential(0) : p.toFixed(3)],
      ...[p < alpha ? 'yes' : 'no', power.toFixed(2)],
    ]),
  };
}

function memoryTable({ speed }: BenchDocument, memory: MemoryReport | null): Table {
  const mib = (bytes: number) => `${Math.round(bytes / 1024 ** 2)} MiB`;
  const resident = Object.entries(speed.resident).map(([name, bytes]) => [
    ...[`${name}, after the rounds above`, `${mib(bytes)} resident`, ''],
  ]);
  const flooded = (memory?.rounds ?? []).map(({ concurrency, tracing, peak, base }) => [
    `service, logins beside verifies, HASH_CONCURRENCY ${concurrency}${tracing ? ', with tracing' : ''}`,
    `${mib(peak)} anonymous, peak`,
    `${mib(base)} besides the hashes, at most ${mib(memory?.budget ?? 0)}`,
  ]);
  return { title: 'Memory', head: ['process', 'memory', ''], rows: [...resident, ...flooded] };
}

function limitTable({ limits }: BenchDocument): Table {
  return {
    title: 'Limits',
    head: ['setting', 'what', 'limit', 'measured', ''],
    rows: limits.map(({ setting, what, limit, value, isMet }) => [
      ...[setting, what, `${setting.includes('_MAX_') ? 'at most' : 'at least'} ${limit}`, value.toFixed(2)],
      isMet ? 'pass' : 'FAIL',
    ]),
  };
}

export function changeTable(changes: readonly OperationChange[]): Table {
  return {
    title: 'Shares beside the committed ones (docs/benchmarks.json)',
    head: ['operation', 'share', 'committed', 'change', 'p', ''],
    rows: changes.map(({ operation, now, then, change, p, verdict }) => [
      ...[operation, now.toFixed(2), then.toFixed(2), percent(change), p.toFixed(3)],
      verdict === 'slower' || verdict === 'too noisy' ? verdict.toUpperCase() : verdict,
    ]),
  };
}

/** What makes figures of this run doubtful. */
export function doubtsOf({ speed, flood, logins, memory }: BenchDocument): string[] {
  const doubts: string[] = [];
  for (const { operation, service, floor, yardstick } of speed.operations) {
    for (const [server, name, figures] of [
      ['service', operation, service],
      ['floor', yardstick, floor],
    ] as const) {
      const { generatorCpu, serverCpu } = figures;
      if (generatorCpu > SATURATED)
        doubts.push(`${server}, ${name}: the load generator was the bottleneck, so the service looks better`);
      // Hashes run on other threads, and PostgreSQL's time is not the server's.
      if (['hello', 'verify', 'refresh'].includes(name) && serverCpu > 0 && serverCpu < STARVED)
        doubts.push(
          `${server}, ${name}: the server got ${serverCpu.toFixed(2)} of a core: the machine was busy`,
        );
    }
  }
  for (const { operation, server, generatorCpu } of speed.latencies) {
    if (generatorCpu > SATURATED)
      doubts.push(`${server}, ${operation}: the generator of the open loop was late, not the server`);
  }
  const idleCores = flood ? median(flood.rounds.map((round) => round.idleCores)) : 0;
  if (idleCores > BUSY)
    doubts.push(`the idle machine used ${idleCores.toFixed(2)} cores, which makes the flood look harmless`);
  if (logins?.tells) doubts.push('FAIL: the time of a failed login tells why it failed');
  if (logins?.isBlind) doubts.push('FAIL: too noisy to see whether failed logins differ');
  if (memory?.isOver) doubts.push('FAIL: the service needs more memory than the configuration check assumes');
  return [...new Set(doubts)];
}

export function machineLine({
  date,
  machine,
  settings,
}: Pick<BenchDocument, 'date' | 'machine' | 'settings'>): string {
  const { cores, cpu, node } = machine;
  return `${date.slice(0, 16).replace('T', ' ')} UTC, ${cores} cores (${cpu}), Node ${node}, ${settings.connections} connections, medians of ${settings.rounds} rounds of ${settings.seconds} s`;
}

export function rate(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** The median, with the range of the middle half. */
function spread({ median, low, high }: Sample): string {
  return `${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
}

function range(values: readonly number[]): string {
  return `${Math.min(...values).toFixed(2)}–${Math.max(...values).toFixed(2)}`;
}

function percent(share: number): string {
  return `${share < 0 ? '' : '+'}${(100 * share).toFixed(1)}%`;
}
