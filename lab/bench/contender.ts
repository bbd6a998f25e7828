import { runLoad } from '../../test/support/generator/load.ts';
import { operationsOf, type Operation, type Workload, type Yardstick } from './operations.ts';
import { median, quantile, sampleOf, type Sample } from './statistics.ts';
import type { ServerName, Subject } from './subject.ts';

/** A closed loop before the first round: compilers work in it. */
const WARM_UP_SECONDS = 4;

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
  /** The lower quartile of `micros`, which limits judge: other work can only add to CPU time. */
  cpu?: number;
}

/** One server with one load, and what it did in each round. */
export interface Contender {
  name: string;
  subject: Subject;
  operation: Operation;
  workload: Workload;
  rounds: Round[];
}

interface GroupOptions {
  rounds: number;
  seconds: number;
  hashSeconds: number;
}

/** Runs everything that has this yardstick in rounds, in an order that changes each time. */
export async function measureGroup(
  subjects: readonly Subject[],
  yardstick: Yardstick,
  options: GroupOptions,
): Promise<Contender[]> {
  // Rounds of hashes take seconds, so there are half as many: six of the usual eleven.
  const rounds = yardstick === 'scrypt' ? Math.ceil(options.rounds / 2) : options.rounds;
  const seconds = yardstick === 'scrypt' ? options.hashSeconds : options.seconds;
  // A hash needs no warm-up: it is native code.
  const warmUp = yardstick === 'scrypt' ? 0 : Math.min(WARM_UP_SECONDS, 8 * seconds);
  const contenders = await contendersOf(subjects, yardstick, warmUp + rounds * seconds);
  if (warmUp > 0) for (const each of contenders) await runRound(each, warmUp);
  for (let i = 0; i < rounds; i++) {
    for (const each of i % 2 === 0 ? contenders : contenders.toReversed())
      each.rounds.push(await runRound(each, seconds));
  }
  return contenders;
}

async function contendersOf(
  subjects: readonly Subject[],
  yardstick: Yardstick,
  seconds: number,
): Promise<Contender[]> {
  const contenders = new Map<string, Contender>();
  for (const subject of subjects) {
    // The ruler knows nothing else.
    if (subject.name === 'ruler' && yardstick !== 'verify') continue;
    for (const operation of operationsOf(yardstick)) {
      const name = nameOf(subject, operation);
      if (contenders.has(name)) continue;
      const workload = await subject.workload(operation, seconds);
      contenders.set(name, { name, subject, operation, workload, rounds: [] });
    }
  }
  return [...contenders.values()];
}

function nameOf(subject: Subject, operation: Operation): string {
  return `${subject.name}: ${subject.runs(operation)}`;
}

async function runRound({ subject, operation, workload }: Contender, seconds: number): Promise<Round> {
  const server = subject.process;
  const before = server.cpuSeconds();
  const result = await runLoad(server.url, workload.callers, seconds);
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

/** The contender that runs an operation, or its yardstick. @throws Error if there is none. */
export function contenderOf(
  contenders: readonly Contender[],
  server: ServerName,
  operation: Operation,
): Contender {
  const found = contenders.find(
    ({ name, subject }) => subject.name === server && name === nameOf(subject, operation),
  );
  if (!found) throw new Error(`the ${server} did not run ${operation}`);
  return found;
}

export function figuresOf({ rounds }: Contender): Figures {
  const of = (name: keyof Round) => median(rounds.map((each) => each[name]));
  return {
    perSecond: of('perSecond'),
    micros: of('micros'),
    serverCpu: of('serverCpu'),
    generatorCpu: of('generatorCpu'),
    spread: sampleOf(rounds.map(({ perSecond }) => perSecond)),
    cpu: quantile(
      rounds.map(({ micros }) => micros),
      0.25,
    ),
  };
}
