import { setTimeout as sleep } from 'node:timers/promises';
import { sharesOf } from './comparison.ts';
import { load } from './generator.ts';
import { runLoad } from './load.ts';
import type { OpenLoopResult } from './open-loop.ts';
import {
  BARE_SESSIONS,
  bareOpenWorkload,
  bareWorkload,
  OPERATIONS,
  operationsOf,
  serviceOpenWorkload,
  serviceWorkload,
  type Operation,
  type OpenWorkload,
  type Workload,
  type Yardstick,
} from './operations.ts';
import { startServer, type ServerProcess } from './server-process.ts';
import { median, sampleOf, type Sample } from './statistics.ts';
import { HASH_CONCURRENCY, PRODUCTION_COST, type World } from './world.ts';

const WARM_UP_SECONDS = 1.5;
/** Logouts take their time from their number, not from the clock. */
const LONGEST_ROUND = 10;
/** The rate of the open loop, as a share of what the closed loop reached. */
const LOAD_FACTOR = 0.7;
/** An open loop after another one: what the first left behind is over. */
const PAUSE = 100;

/** One server under load for some seconds. CPU shares are of one core. */
export interface Round {
  perSecond: number;
  /** CPU time of the server in microseconds a request: the figure that other work on the machine disturbs least. */
  micros: number;
  generatorCpu: number;
  serverCpu: number;
}

/** The medians of the rounds. */
export interface Figures extends Round {
  /** Of `perSecond`. */
  spread: Sample;
}

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

export interface LatencyReport {
  operation: 'verify' | 'refresh';
  server: ServerName;
  perSecond: number;
  /** Milliseconds: medians of the rounds, and the spread of the p99. */
  p50: number;
  p99: number;
  p999: number;
  spread: Sample;
  /** The generator's own delay and its share of a core. */
  lateP99: number;
  generatorCpu: number;
}

export interface SpeedReport {
  operations: OperationReport[];
  ruler: RulerReport[];
  latencies: LatencyReport[];
  /** Bytes that each server occupied at the end. */
  resident: Partial<Record<ServerName, number>>;
}

export type ServerName = 'floor' | 'service' | 'ruler';

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

/** A server in the run. */
interface Subject {
  name: ServerName;
  process: ServerProcess;
  /** What it runs for this operation of the service: a bare server runs the yardstick. */
  runs(operation: Operation): string;
  workload(operation: Operation, rounds: number): Promise<Workload>;
  openWorkload(operation: 'verify' | 'refresh'): Promise<OpenWorkload>;
}

/** One server with one load, and what it did in each round. */
interface Contender {
  name: string;
  subject: Subject;
  operation: Operation;
  workload: Workload;
  rounds: Round[];
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
      if (yardstick === 'verify' || yardstick === 'refresh')
        report.latencies.push(...(await measureLatency(yardstick, contenders, options)));
    }
    for (const { name, process } of subjects) report.resident[name] = process.residentMemory();
    return report;
  } finally {
    await Promise.all(subjects.map(({ process }) => process.stop()));
  }
}

const SERVICE = new URL('../../src/server.js', import.meta.url).pathname;

async function startSubject(
  name: ServerName,
  script: string,
  world: World,
  profile: string | undefined,
): Promise<Subject> {
  const prefix = `${world.env.REDIS_PREFIX ?? ''}${name}:`;
  const { logN, r, p } = PRODUCTION_COST;
  const process = await startServer({
    script,
    args: [String(BARE_SESSIONS)],
    nodeOptions: profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`],
    env: {
      ...world.unlimited,
      // Of the bare servers.
      ...{ FLOOR_PREFIX: prefix, RULER_PREFIX: prefix },
      ...{ SCRYPT_LOG_N: String(logN), SCRYPT_R: String(r), SCRYPT_P: String(p) },
    },
    logFile: `${world.folder}/${name}.log`,
  });
  const { tokens } = process;
  if (tokens) {
    const runs = (operation: Operation): Yardstick => OPERATIONS[operation].yardstick;
    return {
      ...{ name, process, runs },
      workload: (operation) => Promise.resolve(bareWorkload(runs(operation), tokens, HASH_CONCURRENCY)),
      openWorkload: (operation) => Promise.resolve(bareOpenWorkload(operation, tokens)),
    };
  }
  return {
    ...{ name, process, runs: (operation) => operation },
    workload: (operation, rounds) => serviceWorkload(operation, world, rounds),
    openWorkload: (operation) => serviceOpenWorkload(operation, world),
  };
}

/** Runs everything that has this yardstick in rounds, in an order that changes each time. */
async function measureGroup(
  subjects: readonly Subject[],
  yardstick: Yardstick,
  options: SpeedOptions,
): Promise<Contender[]> {
  // Rounds of hashes take seconds, so there are half as many: six of the usual eleven.
  const rounds = yardstick === 'scrypt' ? Math.ceil(options.rounds / 2) : options.rounds;
  const seconds = yardstick === 'scrypt' ? options.hashSeconds : options.seconds;
  const contenders = await contendersOf(subjects, yardstick, rounds + 1);
  // A hash needs no warm-up: it is native code.
  if (yardstick !== 'scrypt')
    for (const each of contenders) await runRound(each, Math.min(WARM_UP_SECONDS, 3 * seconds));
  for (let i = 0; i < rounds; i++) {
    for (const each of i % 2 === 0 ? contenders : contenders.toReversed())
      each.rounds.push(await runRound(each, seconds));
  }
  return contenders;
}

async function contendersOf(
  subjects: readonly Subject[],
  yardstick: Yardstick,
  rounds: number,
): Promise<Contender[]> {
  const contenders = new Map<string, Contender>();
  for (const subject of subjects) {
    // The ruler hashes nothing.
    if (subject.name === 'ruler' && yardstick === 'scrypt') continue;
    for (const operation of operationsOf(yardstick)) {
      const name = nameOf(subject, operation);
      if (contenders.has(name)) continue;
      const workload = await subject.workload(operation, rounds);
      contenders.set(name, { name, subject, operation, workload, rounds: [] });
    }
  }
  return [...contenders.values()];
}

function nameOf(subject: Subject, operation: Operation): string {
  return `${subject.name}: ${subject.runs(operation)}`;
}

async function runRound({ subject, operation, workload }: Contender, seconds: number): Promise<Round> {
  workload.begin?.();
  const server = subject.process;
  const before = server.cpuSeconds();
  const result = await runLoad(server.url, workload.callers, workload.begin ? LONGEST_ROUND : seconds);
  const cpu = server.cpuSeconds() - before;
  server.emptyLog();
  if (result.requests === 0) throw new Error(`${subject.name} answered no ${operation}`);
  return {
    perSecond: result.requests / result.seconds,
    micros: (cpu * 1e6) / result.requests,
    serverCpu: cpu / result.seconds,
    generatorCpu: result.cpu,
  };
}

function operationReports(yardstick: Yardstick, contenders: readonly Contender[]): OperationReport[] {
  return operationsOf(yardstick).map((operation) => {
    const service = find(contenders, 'service', operation);
    const floor = find(contenders, 'floor', operation);
    const shares = sharesBetween(service, floor);
    return {
      ...{ operation, yardstick: floor.subject.runs(operation) },
      ...{ service: figuresOf(service), floor: figuresOf(floor), shares, share: sampleOf(shares) },
    };
  });
}

function rulerReports(contenders: readonly Contender[]): RulerReport[] {
  return contenders
    .filter(({ subject }) => subject.name === 'ruler')
    .map((ruler) => {
      const floor = find(contenders, 'floor', ruler.operation);
      const shares = sharesBetween(floor, ruler);
      return {
        yardstick: ruler.subject.runs(ruler.operation),
        ...{ ruler: figuresOf(ruler), floor: figuresOf(floor), shares, share: sampleOf(shares) },
      };
    });
}

function find(contenders: readonly Contender[], server: ServerName, operation: Operation): Contender {
  const found = contenders.find(
    ({ name, subject }) => subject.name === server && name === nameOf(subject, operation),
  );
  if (!found) throw new Error(`the ${server} did not run ${operation}`);
  return found;
}

function sharesBetween(above: Contender, below: Contender): number[] {
  return sharesOf(
    above.rounds.map((round, i) => ({
      service: round.perSecond,
      yardstick: below.rounds[i]?.perSecond ?? NaN,
    })),
  );
}

function figuresOf({ rounds }: Contender): Figures {
  const of = (name: keyof Round) => median(rounds.map((each) => each[name]));
  return {
    perSecond: of('perSecond'),
    micros: of('micros'),
    serverCpu: of('serverCpu'),
    generatorCpu: of('generatorCpu'),
    spread: sampleOf(rounds.map(({ perSecond }) => perSecond)),
  };
}

/** The latency at 70% of what each server reached, in an open loop; the servers take turns. */
async function measureLatency(
  operation: 'verify' | 'refresh',
  contenders: readonly Contender[],
  { rounds, latencySeconds: seconds }: SpeedOptions,
): Promise<LatencyReport[]> {
  const all = [];
  for (const name of ['floor', 'service'] as const) {
    const contender = find(contenders, name, operation);
    const perSecond = Math.round(LOAD_FACTOR * figuresOf(contender).perSecond);
    const { subject } = contender;
    const results: OpenLoopResult[] = [];
    all.push({ name, subject, perSecond, results, work: await subject.openWorkload(operation) });
  }
  for (let i = 0; i < Math.ceil(rounds / 2); i++) {
    for (const { subject, perSecond, results, work } of i % 2 === 0 ? all : all.toReversed()) {
      const result = await load({ origin: subject.process.url, perSecond, seconds, ...work }, ['200']);
      work.requests = result.requests ?? work.requests;
      results.push(result);
      subject.process.emptyLog();
      await sleep(PAUSE);
    }
  }
  return all.map(({ name, perSecond, results }) => {
    const of = (field: Exclude<keyof OpenLoopResult, 'statuses' | 'requests' | 'failure'>) =>
      median(results.map((each) => each[field]));
    return {
      ...{ operation, server: name, perSecond },
      ...{ p50: of('p50'), p99: of('p99'), p999: of('p999') },
      ...{ spread: sampleOf(results.map(({ p99 }) => p99)), lateP99: of('lateP99'), generatorCpu: of('cpu') },
    };
  });
}
