import os from 'node:os';
import type { FloodReport } from './flood.ts';
import type { LoginTimesReport } from './login-times.ts';
import type { MemoryReport } from './memory.ts';

/** One server under load for some seconds. CPU shares are of one core. */
export interface Round {
  perSecond: number;
  /** CPU time of the server in microseconds a request: the figure that other work on the machine disturbs least. */
  serverMicros: number;
  generatorCpu: number;
  serverCpu: number;
}

export interface KindReport {
  kind: 'verify' | 'refresh';
  /** The median of the rounds' ratios. */
  ratio: number;
  ratios: number[];
  /** The ratio required. */
  minimum: number;
  rounds: { floor: Round; service: Round }[];
}

/** Above this share of a core the generator limits the faster server, which flatters the slower one. */
const SATURATED = 0.9;
/** Above this many cores, other work used the machine while it should have been idle. */
const BUSY = 0.6;
/** Below this share of a core, other work used the machine, and requests per second mean little. */
const STARVED = 0.8;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? NaN) + upper) / 2;
}

interface Reports {
  speed: readonly KindReport[];
  flood: FloodReport;
  logins: LoginTimesReport;
  memory: MemoryReport;
}

export function printReport(
  { speed: reports, flood, logins, memory }: Reports,
  { json, connections }: { json: boolean; connections: number },
): void {
  const machine = { node: process.version, cores: os.cpus().length, cpu: os.cpus()[0]?.model ?? 'unknown' };
  const kinds = reports.map((report) => ({
    kind: report.kind,
    ratio: round(report.ratio, 3),
    min: round(Math.min(...report.ratios), 3),
    max: round(Math.max(...report.ratios), 3),
    minimum: report.minimum,
    floor: summary(report.rounds.map(({ floor }) => floor)),
    service: summary(report.rounds.map(({ service }) => service)),
  }));
  if (json) {
    process.stdout.write(
      `${JSON.stringify({ machine, connections, kinds, reports, flood, logins, memory })}\n`,
    );
    return;
  }
  const lines = kinds.flatMap(({ kind, ratio, min, max, minimum, floor, service }) => [
    `${kind.padEnd(8)} ${ratio.toFixed(2)} of the floor (${min.toFixed(2)}–${max.toFixed(2)}), at least ${minimum}: ${ratio >= minimum ? 'ok' : 'TOO SLOW'}`,
    ...Object.entries({ floor, service }).map(
      ([name, { perSecond, serverMicros, serverCpu, generatorCpu }]) =>
        `  ${name.padEnd(8)} ${String(perSecond).padStart(6)}/s, ${serverMicros.toFixed(1)} µs of processor time each; cores used: server ${serverCpu.toFixed(2)}, generator ${generatorCpu.toFixed(2)}` +
        (generatorCpu > SATURATED ? ' (SATURATED: this figure is the generator’s)' : '') +
        (serverCpu > 0 && serverCpu < STARVED ? ' (STARVED: the machine was busy with something else)' : ''),
    ),
  ]);
  lines.push(
    ...floodLines(flood),
    ...loginLines(logins),
    ...memoryLines(memory),
    `Node ${machine.node}, ${machine.cores} cores (${machine.cpu}), ${connections} connections; medians of ${reports[0]?.ratios.length ?? 0}, ${flood.rounds.length} and ${logins.rounds.length} rounds`,
  );
  process.stdout.write(`${lines.join('\n')}\n`);
}

function floodLines({ kind, ratio, ratios, maximum, perSecond, rounds }: FloodReport): string[] {
  const of = (read: (round: FloodReport['rounds'][number]) => number) => median(rounds.map(read)).toFixed(2);
  const logins = (status: string) =>
    rounds.reduce((sum, round) => sum + (round.logins.statuses[status] ?? 0), 0);
  const range = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`;
  const idleCores = median(rounds.map((round) => round.idleCores));
  return [
    `${kind} (open loop): p99 ${ratio.toFixed(2)} times the idle one (${range}), at most ${maximum}: ${ratio <= maximum ? 'ok' : 'TOO LATE'}`,
    `  idle     p50 ${of(({ idle }) => idle.p50)} ms, p99 ${of(({ idle }) => idle.p99)} ms at ${perSecond.verify}/s; cores used: generator ${of(({ idle }) => idle.cpu)}, the whole machine ${idleCores.toFixed(2)}` +
      (idleCores > BUSY ? ' (BUSY: not idle at all, which flatters the ratio)' : ''),
    `  flooded  p50 ${of(({ flooded }) => flooded.p50)} ms, p99 ${of(({ flooded }) => flooded.p99)} ms; of ${perSecond.logins} logins/s ${logins('401')} were checked and ${logins('503')} shed`,
    `  generator's own delay, p99: ${of(({ idle }) => idle.lateP99)} ms idle, ${of(({ flooded }) => flooded.lateP99)} ms flooded`,
  ];
}

function loginLines(report: LoginTimesReport): string[] {
  const { rounds, comparisons, alpha, shift, power, minPower, tells, isBlind } = report;
  const verdict = tells ? 'THEY TELL' : isBlind ? 'TOO NOISY: this run says nothing' : 'ok';
  const names = { known: 'wrong password', disabled: 'disabled user', planted: `planted ${shift * 100}%` };
  return [
    `failed logins, old hashes stored: unknown name ${median(rounds.map(({ unknown }) => unknown)).toFixed(0)} ms; would find ${shift * 100}% with power ${power.toFixed(2)}, at least ${minPower}, at p < ${alpha}: ${verdict}`,
    ...comparisons.map(({ kind, difference, p }) => {
      const percent = `${difference < 0 ? '' : '+'}${(100 * difference).toFixed(1)}%`;
      return `  ${names[kind].padEnd(14)} ${percent.padStart(7)}, p ${p < alpha ? p.toExponential(0) : p.toFixed(3)}: ${p < alpha ? 'differs' : 'no difference found'}`;
    }),
  ];
}

function memoryLines({ rounds, budget, isOver }: MemoryReport): string[] {
  const mib = (bytes: number) => `${Math.round(bytes / 1024 ** 2)} MiB`;
  return [
    `memory in a flood of logins beside verifies: at most ${mib(budget)} besides the hashes: ${isOver ? 'TOO MUCH' : 'ok'}`,
    ...rounds.map(
      ({ concurrency, tracing, peak, base }) =>
        `  HASH_CONCURRENCY ${concurrency}${tracing ? ', with tracing' : ''}: ${mib(peak)}, ${mib(base)} besides the hashes`,
    ),
  ];
}

function summary(rounds: readonly Round[]): Round {
  const of = (name: keyof Round) => median(rounds.map((each) => each[name]));
  return {
    perSecond: Math.round(of('perSecond')),
    serverMicros: round(of('serverMicros'), 1),
    serverCpu: round(of('serverCpu'), 2),
    generatorCpu: round(of('generatorCpu'), 2),
  };
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
