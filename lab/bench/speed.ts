import { sharesOf } from './comparison.ts';
import { contenderOf, figuresOf, measureGroup, type Contender, type Figures } from './contender.ts';
import { measureLatency, type LatencyReport } from './latency.ts';
import { operationsOf, type Operation, type Yardstick } from './operations.ts';
import { sampleOf, type Sample } from './statistics.ts';
import { SERVICE, startSubject, type ServerName, type Subject } from './subject.ts';
import type { World } from './world.ts';

export interface OperationReport {
  operation: Operation;
  /** What the floor did. */
  yardstick: string;
  service: Figures;
  floor: Figures;
  /** Requests a second, service to floor, round by round. */
  shares: number[];
  share: Sample;
}

/** One server's verify beside the ruler's. */
export interface RulerReport {
  name: string;
  figures: Figures;
  ruler: Figures;
  /** Of the ruler's CPU time: its lower quartile, divided by that of this server. */
  share: number;
}

export interface SpeedReport {
  operations: OperationReport[];
  ruler: RulerReport[];
  latencies: LatencyReport[];
  /** Bytes that each server occupied at the end. */
  resident: Partial<Record<ServerName, number>>;
}

export interface SpeedOptions {
  yardsticks: readonly Yardstick[];
  rounds: number;
  seconds: number;
  hashSeconds: number;
  latencySeconds: number;
  floor: string;
  ruler: string | undefined;
  profile: string | undefined;
}

/** Measures the service and the floor in turn. Servers live through all of it, as in production. */
export async function measureSpeed(world: World, options: SpeedOptions): Promise<SpeedReport> {
  const subjects: Subject[] = [];
  const report: SpeedReport = { operations: [], ruler: [], latencies: [], resident: {} };
  try {
    for (const name of ['floor', 'service', 'ruler'] as const) {
      if (name === 'ruler' && !options.yardsticks.includes('verify')) continue;
      const script = name === 'service' ? SERVICE : options[name];
      if (script !== undefined) subjects.push(await startSubject(name, script, world, options.profile));
    }
    for (const yardstick of options.yardsticks) {
      const contenders = await measureGroup(subjects, yardstick, options);
      report.operations.push(...operationReports(yardstick, contenders));
      report.ruler.push(...rulerReports(contenders));
      if (options.latencySeconds > 0) report.latencies.push(...(await measureLatency(contenders, options)));
    }
    for (const { name, process } of subjects) report.resident[name] = process.residentMemory();
    return report;
  } finally {
    await Promise.all(subjects.map(({ process }) => process.stop()));
  }
}

function operationReports(yardstick: Yardstick, contenders: readonly Contender[]): OperationReport[] {
  return operationsOf(yardstick).map((operation) => {
    const service = contenderOf(contenders, 'service', operation);
    const floor = contenderOf(contenders, 'floor', operation);
    const shares = sharesBetween(service, floor);
    return {
      operation,
      yardstick: floor.subject.runs(operation),
      service: figuresOf(service),
      floor: figuresOf(floor),
      shares,
      share: sampleOf(shares),
    };
  });
}

function rulerReports(contenders: readonly Contender[]): RulerReport[] {
  const ruling = contenders.find(({ subject }) => subject.name === 'ruler');
  if (!ruling) return [];
  const ruler = figuresOf(ruling);
  return contenders
    .filter(({ subject, operation }) => subject.name !== 'ruler' && operation === 'verify')
    .map((contender) => {
      const figures = figuresOf(contender);
      return { name: contender.name, figures, ruler, share: cpuShare(figures, ruler) };
    });
}

/** How near a server comes to another one by CPU time. */
export function cpuShare(server: Figures, reference: Figures): number {
  return (reference.cpu ?? NaN) / (server.cpu ?? NaN);
}

function sharesBetween(above: Contender, below: Contender): number[] {
  return sharesOf(
    above.rounds.map((round, i) => ({
      service: round.perSecond,
      yardstick: below.rounds[i]?.perSecond ?? NaN,
    })),
  );
}
