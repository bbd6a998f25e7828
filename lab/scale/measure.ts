import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { World } from '../bench/world.ts';
import type { Population } from '../bench/population.ts';
import { idleOf, startReplicas, type Idle, type Replicas, type Round } from './replicas.ts';
import type { StoreMeter } from './stores.ts';
import { callersOf, connectionsOf, sourceOf, type Measured } from './workloads.ts';

export interface Bench {
  world: World;
  meter: StoreMeter;
  rounds: number;
  seconds: number;
  hashSeconds: number;
  reportSeconds: number;
  newTokens: number;
}

/** One set-up with the medians of its rounds. CPU times in microseconds of one request, without idle work. */
export interface Figure {
  operation: Measured;
  replicas: number;
  connections: number;
  sessions: number;
  perSecond: Sample;
  micros: Sample;
  redisMicros: Sample;
  postgresMicros: Sample;
}

/** Cores used without requests: of one replica, and of the stores for each replica. */
export type IdleFigure = Record<keyof Idle, Sample>;

interface SetUp {
  operations: readonly Measured[];
  replicas: readonly number[];
  connections: readonly number[];
}

/**
 * Measures each combination. The set-ups take turns in short rounds, so a busy moment of the machine hits all of them. All
 * replicas run meanwhile, and the stores do their idle work: it is measured first, and subtracted.
 */
export async function measure(
  bench: Bench,
  population: Population,
  setUp: SetUp,
): Promise<{ figures: Figure[]; idle: IdleFigure }> {
  const running: Replicas[] = [];
  try {
    for (const count of setUp.replicas) running.push(await startReplicas(bench.world, bench.meter, count));
    const { idle, figure: idleFigure } = await measureIdle(bench, running);
    const figures: Figure[] = [];
    for (const operation of setUp.operations) {
      const source = sourceOf(operation, population, { most: bench.newTokens });
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
          { idle },
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
    return { figures, idle: idleFigure };
  } finally {
    await Promise.all(running.map((each) => each.stop()));
  }
}

/** Without requests, and while all of these replicas run. Its rounds are as long as those of logins: some tasks are rare. */
async function measureIdle(
  bench: Bench,
  running: readonly Replicas[],
): Promise<{ idle: Idle; figure: IdleFigure }> {
  const count = running.reduce((sum, each) => sum + each.count, 0);
  const look = () => idleOf(bench.meter, running, bench.hashSeconds);
  // Not counted: the end of the start.
  await look();
  const rounds: Idle[] = [];
  for (let i = 0; i < bench.rounds; i++) rounds.push(await look());
  const of = (read: (idle: Idle) => number) => sampleOf(rounds.map(read));
  return {
    idle: {
      replica: of(({ replica }) => replica).median,
      redis: of(({ redis }) => redis).median,
      postgres: of(({ postgres }) => postgres).median,
    },
    figure: {
      replica: of(({ replica }) => replica),
      redis: of(({ redis }) => redis / count),
      postgres: of(({ postgres }) => postgres / count),
    },
  };
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
  };
}
