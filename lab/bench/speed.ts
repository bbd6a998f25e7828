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

export interface RulerReport {
  yardstick: string;
  ruler: Figures;
  floor: Figures;
  /** Requests a second, floor to ruler. */
  shares: number[];
  share: Sample;
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
      const script = name === 'service' ? SERVICE : options[name];
      if (script !== undefined) subjects.push(await startSubject(name, script, world, options.profile));
    }
    for (const yardstick of options.yardsticks) {
      const contenders = await measureGroup(subjects, yardstick, options);
      report.operations.push(...operationReports(yardstick, contenders));
      report.ruler.push(...rulerReports(contenders));
      report.latencies.push(...(await measureLatency(contenders, options)));
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
  return contenders
    .filter(({ subject }) => subject.name === 'ruler')
    .map((ruler) => {
      const floor = contenderOf(contenders, 'floor', ruler.operation);
      const shares = sharesBetween(floor, ruler);
      return {
        yardstick: ruler.subject.runs(ruler.operation),
        ruler: figuresOf(ruler),
        floor: figuresOf(floor),
        shares,
        share: sampleOf(shares),
      };
    });
}

function sharesBetween(above: Contender, below: Contender): number[] {
  return sharesOf(
    above.rounds.map((round, i) => ({
      service: round.perSecond,
      yardstick: below.rounds[i]?.perSecond ?? NaN,
    })),
  );
}
