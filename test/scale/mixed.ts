import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { Bench } from './measure.ts';
import { populate } from './population.ts';
import { startReplicas, type Round } from './replicas.ts';
import { callersOf, OPERATIONS, sourceOf, type Operation } from './workloads.ts';

/** A set-up that no cost was fitted to: several operations at once. */
export interface MixedSetUp {
  replicas: number;
  connections: number;
  sessions: number;
  /** Of each 1,000 requests. */
  requests: Record<Operation, number>;
}

export interface MixedFigure extends MixedSetUp {
  perSecond: Sample;
  /** CPU microseconds of one request, on average over the mix. */
  micros: Sample;
  redisMicros: Sample;
  rows: number;
}

export const MIXED: readonly MixedSetUp[] = [
  { replicas: 1, connections: 16, sessions: 1000, requests: { verify: 900, refresh: 100, login: 0 } },
  { replicas: 2, connections: 32, sessions: 100_000, requests: { verify: 748, refresh: 250, login: 2 } },
];

/** Times the length of a usual round: a mix needs more requests, and write-behind writes each second. */
const LONGER = 3;

export async function measureMixed(bench: Bench, setUp: MixedSetUp): Promise<MixedFigure> {
  const population = await populate(bench.world, setUp.sessions);
  const replicas = await startReplicas(bench.world, bench.meter, setUp.replicas);
  try {
    const sources = Object.fromEntries(
      OPERATIONS.map((operation) => [
        operation,
        sourceOf(operation, population, operation === 'refresh' ? 1 : 0),
      ]),
    ) as Record<Operation, ReturnType<typeof sourceOf>>;
    const rounds: Round[] = [];
    const run = () =>
      replicas.run(
        callersOf(setUp.connections, () => sources[chosen(setUp)]),
        LONGER * bench.seconds,
      );
    // Not counted: logins would leave the compiler few requests to learn from.
    const known = { requests: { verify: 500, refresh: 500, login: 0 } };
    await replicas.run(
      callersOf(setUp.connections, () => sources[chosen(known)]),
      LONGER * bench.seconds,
    );
    for (let i = 0; i < bench.rounds; i++) rounds.push(await run());
    const of = (name: keyof Round) => sampleOf(rounds.map((round) => round[name]));
    return {
      ...setUp,
      ...{ perSecond: of('perSecond'), micros: of('micros'), redisMicros: of('redisMicros') },
      rows: of('rows').median,
    };
  } finally {
    await replicas.stop();
  }
}

function chosen({ requests }: Pick<MixedSetUp, 'requests'>): Operation {
  let at = Math.random() * 1000;
  for (const operation of OPERATIONS) {
    at -= requests[operation];
    if (at < 0) return operation;
  }
  return 'verify';
}
