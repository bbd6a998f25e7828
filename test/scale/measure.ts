import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { World } from '../bench/world.ts';
import type { Population } from './population.ts';
import { startReplicas, type Replicas, type Round } from './replicas.ts';
import type { StoreMeter } from './stores.ts';
import { callersOf, connectionsOf, sourceOf, type Operation } from './workloads.ts';

export interface Bench {
  world: World;
  meter: StoreMeter;
  rounds: number;
  seconds: number;
  hashSeconds: number;
}

/** One set-up with the medians of its rounds. CPU times in microseconds of one request. */
export interface Figure {
  operation: Operation;
  replicas: number;
  connections: number;
  sessions: number;
  perSecond: Sample;
  micros: Sample;
  redisMicros: Sample;
  postgresMicros: Sample;
  rows: number;
}

interface SetUp {
  operations: readonly Operation[];
  replicas: readonly number[];
  connections: readonly number[];
}

/** Measures each combination. The set-ups take turns in short rounds, so a busy moment of the machine hits all of them. */
export async function measure(bench: Bench, population: Population, setUp: SetUp): Promise<Figure[]> {
  const running: Replicas[] = [];
  try {
    for (const count of setUp.replicas) running.push(await startReplicas(bench.world, bench.meter, count));
    const figures: Figure[] = [];
    for (const operation of setUp.operations) {
      const source = sourceOf(operation, population);
      const contenders = running.flatMap((replicas) =>
        setUp.connections.map((most) => ({
          replicas,
          connections: connectionsOf(operation, most),
          rounds: [] as Round[],
        })),
      );
      const run = ({ replicas, connections }: (typeof contenders)[number]) =>
        replicas.run(
          callersOf(connections, () => source),
          operation === 'login' ? bench.hashSeconds : bench.seconds,
        );
      // Not counted: connections, caches and the compiler, which need some requests of each replica.
      if (operation !== 'login')
        for (const each of contenders) for (let i = 0; i <= each.replicas.count; i++) await run(each);
      for (let i = 0; i < bench.rounds; i++)
        for (const each of i % 2 === 0 ? contenders : contenders.toReversed())
          each.rounds.push(await run(each));
      figures.push(
        ...contenders.map(({ replicas, connections, rounds }) =>
          figureOf(
            { operation, replicas: replicas.count, connections, sessions: population.sessions },
            rounds,
          ),
        ),
      );
    }
    return figures;
  } finally {
    await Promise.all(running.map((each) => each.stop()));
  }
}

/** Cores that one replica uses without requests. */
export async function measureIdle(bench: Bench): Promise<Sample> {
  const replicas = await startReplicas(bench.world, bench.meter, 1);
  try {
    // Not counted: the end of the start.
    await replicas.idle(bench.hashSeconds);
    const cores: number[] = [];
    for (let i = 0; i < bench.rounds; i++) cores.push(await replicas.idle(bench.seconds));
    return sampleOf(cores);
  } finally {
    await replicas.stop();
  }
}

function figureOf(
  setUp: Pick<Figure, 'operation' | 'replicas' | 'connections' | 'sessions'>,
  rounds: readonly Round[],
): Figure {
  const of = (name: keyof Round) => sampleOf(rounds.map((round) => round[name]));
  return {
    ...setUp,
    perSecond: of('perSecond'),
    micros: of('micros'),
    redisMicros: of('redisMicros'),
    postgresMicros: of('postgresMicros'),
    rows: of('rows').median,
  };
}
