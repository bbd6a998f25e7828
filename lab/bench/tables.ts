import { count, fixed, mib, percent, spread, type Table } from '../table.ts';
import { bytesTable } from './bytes.ts';
import type { BenchDocument, OperationChange } from './document.ts';
import type { FloodReport } from './flood.ts';
import type { InstructionsReport } from './redis-instructions.ts';
import type { LoginTimesReport } from './login-times.ts';
import type { MemoryReport } from './memory.ts';
import { OPERATIONS } from './operations.ts';
import type { LimitName } from './settings.ts';
import type { OperationReport } from './speed.ts';
import { stallTable } from './stall.ts';
import { median } from './statistics.ts';

/** Above this share of a core the generator limits the faster server, which flatters the slower one. */
const SATURATED = 0.9;
/** Above this many cores, other work used the machine while it should have been idle. */
const BUSY = 0.6;
/** Below this share of a core, something else limited the server, and requests per second mean little. */
const STARVED = 0.8;

export function tablesOf(document: BenchDocument): Table[] {
  const { flood, logins, memory, stall, bytes, instructions } = document;
  return [
    speedTable(document),
    rulerTable(document),
    latencyTable(document),
    ...(flood ? [floodTable(flood)] : []),
    ...(logins ? [loginTable(logins)] : []),
    memoryTable(document, memory),
    ...(stall ? [stallTable(stall)] : []),
    ...(bytes ? [bytesTable(bytes)] : []),
    ...(instructions ? [instructionsTable(instructions)] : []),
    limitTable(document),
  ];
}

/** What a reader of docs/performance.md plans with. */
export function pageTable({ speed }: BenchDocument): Table {
  const latencies = speed.latencies.filter(({ server }) => server === 'service');
  return {
    title: 'Speed',
    head: [...speedHead('the floor'), 'p50 ms', 'p99 ms'],
    rows: speed.operations.map((each) => {
      const latency = latencies.find(({ operation }) => operation === each.operation);
      return [
        ...speedCells(each),
        latency ? fixed(latency.p50, 2) : '',
        latency ? spread(latency.spread, 2) : '',
      ];
    }),
  };
}

/** Beside that table. */
export function pageTablesOf(document: BenchDocument): Table[] {
  const { instructions } = document;
  return [rulerTable(document), ...(instructions ? [instructionsTable(instructions)] : [])];
}

/** The limits that are about no operation of that table. */
export function pageNotes({ limits }: BenchDocument): string[] {
  const shares = Object.values(OPERATIONS).map((operation) =>
    'minimum' in operation ? operation.minimum : '',
  );
  return limits
    .filter(({ setting }) => !shares.some((share) => share === setting))
    .map(
      ({ setting, what, value, limit, isMet }) =>
        `${isMet ? '' : 'MISSED: '}${what}: ${fixed(value, 2)}, ${boundOf(setting)} ${limit} (${setting})`,
    );
}

function boundOf(setting: LimitName): string {
  return setting.includes('_MAX_') ? 'at most' : 'at least';
}

function speedTable({ speed, settings: { reference = 'the floor' } }: BenchDocument): Table {
  return {
    title: 'Speed',
    head: speedHead(reference),
    rows: speed.operations.map(speedCells),
  };
}

function speedHead(reference: string): string[] {
  const measured = ['requests/s', 'CPU µs each'];
  return ['operation', ...measured, `${reference}’s`, ...measured, `share of ${reference}`];
}

function speedCells({ operation, service, yardstick, floor, share }: OperationReport): (string | number)[] {
  return [
    operation,
    service.perSecond,
    service.micros,
    yardstick,
    floor.perSecond,
    floor.micros,
    spread(share, 2),
  ];
}

function rulerTable({ speed }: BenchDocument): Table {
  return {
    title: 'Verify beside the ruler, by the lower quartile of CPU time',
    head: ['server', 'CPU µs each', 'the ruler’s', 'share of the ruler'],
    rows: speed.ruler.map(({ name, figures, ruler, share }) => [
      name,
      fixed(figures.cpu ?? NaN, 1),
      fixed(ruler.cpu ?? NaN, 1),
      fixed(share, 2),
    ]),
  };
}

function instructionsTable({ verifies, service, reference }: InstructionsReport): Table {
  const row = (name: string, way: 'batched' | 'alone') => [
    name,
    count(service[way]),
    ...(reference ? [count(reference[way])] : []),
  ];
  return {
    title: `Instructions of Redis for a verify, means of ${count(verifies)}`,
    head: ['way', 'instructions', ...(reference ? ['the other build’s'] : [])],
    rows: [row('32 tokens in a call', 'batched'), row('one token in a call', 'alone')],
  };
}

function latencyTable({ speed }: BenchDocument): Table {
  return {
    title: 'Latency at 70% of that rate, in an open loop',
    head: ['operation', 'server', 'requests/s', 'p50 ms', 'p99 ms', 'p99.9 ms', 'generator’s own p99 ms'],
    rows: speed.latencies.map(({ operation, server, perSecond, p50, spread: p99, p999, lateP99 }) => [
      operation,
      server,
      perSecond,
      fixed(p50, 2),
      spread(p99, 2),
      fixed(p999, 2),
      fixed(lateP99, 2),
    ]),
  };
}

function floodTable({ ratio, ratios, perSecond, rounds }: FloodReport): Table {
  const latencies = (name: 'idle' | 'flooded') => {
    const of = (field: 'p50' | 'p99' | 'lateP99') =>
      fixed(median(rounds.map((round) => round[name][field])), 2);
    return [name, of('p50'), of('p99'), of('lateP99')];
  };
  const logins = (status: string) =>
    rounds.reduce((sum, round) => sum + (round.logins.statuses[status] ?? 0), 0);
  const range = { median: ratio, low: Math.min(...ratios), high: Math.max(...ratios) };
  return {
    title: `Verify at ${perSecond.verify}/s beside ${perSecond.logins} logins a second, in an open loop`,
    head: ['', 'p50 ms', 'p99 ms', 'generator’s own p99 ms', 'logins checked', 'logins shed'],
    rows: [
      [...latencies('idle'), '', ''],
      [...latencies('flooded'), logins('401'), logins('503')],
      ['ratio', '', spread(range, 2), '', '', ''],
    ],
  };
}

function loginTable({ rounds, comparisons, alpha, shift, power }: LoginTimesReport): Table {
  const names = { known: 'wrong password', disabled: 'disabled user', planted: `planted ${shift * 100}%` };
  const unknown = median(rounds.map((round) => round.unknown));
  return {
    title: `Failed logins beside one of an unknown name (${count(unknown)} ms), while old hashes are stored`,
    head: ['kind', 'difference', 'p', `found at p < ${alpha}`, `power to find ${shift * 100}%`],
    rows: comparisons.map(({ kind, difference, p }) => [
      names[kind],
      percent(difference, 1),
      p < alpha ? p.toExponential(0) : p.toFixed(3),
      p < alpha ? 'yes' : 'no',
      fixed(power, 2),
    ]),
  };
}

function memoryTable({ speed }: BenchDocument, memory: MemoryReport | null): Table {
  const resident = Object.entries(speed.resident).map(([name, bytes]) => [
    `${name}, after the rounds above`,
    `${mib(bytes)} resident`,
    '',
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
      setting,
      what,
      `${boundOf(setting)} ${limit}`,
      fixed(value, 2),
      isMet ? 'pass' : 'FAIL',
    ]),
  };
}

export function changeTable(changes: readonly OperationChange[]): Table {
  return {
    title: 'Shares beside the committed ones (docs/benchmarks.json)',
    head: ['operation', 'share', 'committed', 'change', 'p', ''],
    rows: changes.map(({ operation, now, then, change, p, verdict }) => [
      operation,
      fixed(now, 2),
      fixed(then, 2),
      percent(change, 1),
      fixed(p, 3),
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
      if (
        ['hello', 'verify', 'refresh', 'credentials'].includes(name) &&
        serverCpu > 0 &&
        serverCpu < STARVED
      )
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
