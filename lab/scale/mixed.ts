import { setTimeout as sleep } from 'node:timers/promises';
import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { Bench } from './measure.ts';
import { populate } from '../bench/population.ts';
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
  postgresMicros: Sample;
  /** Rows that PostgreSQL wrote for one request, in all rounds together. */
  rows: number;
}

export const MIXED: readonly MixedSetUp[] = [
  mix(1, 16, 1000, { verify: 900, refresh: 100 }),
  mix(1, 32, 10_000, { verify: 800, refresh: 120, 'cold refresh': 80 }),
  mix(2, 32, 100_000, { verify: 748, refresh: 250, login: 2 }),
];

/** Every operation at once: `--smoke` only shows that a mix runs. */
export const SMOKE_MIX = mix(1, 16, 200, { verify: 700, refresh: 180, 'cold refresh': 100, login: 20 });

function mix(
  replicas: number,
  connections: number,
  sessions: number,
  requests: Partial<Record<Operation, number>>,
): MixedSetUp {
  const none = { verify: 0, refresh: 0, 'cold refresh': 0, login: 0 };
  return { replicas, connections, sessions, requests: { ...none, ...requests } };
}

/** Times the length of a usual round: a mix needs more requests, and write-behind writes each second. */
const LONGER = 3;

/** @param coldSessions more than the mix refreshes in all its rounds. */
export async function measureMixed(
  bench: Bench,
  setUp: MixedSetUp,
  coldSessions: number,
): Promise<MixedFigure> {
  const cold = setUp.requests['cold refresh'] > 0 ? coldSessions : 0;
  const population = await populate(bench.world, setUp.sessions, { cold });
  const replicas = await startReplicas(bench.world, bench.meter, setUp.replicas);
  try {
    const sources = Object.fromEntries(
      OPERATIONS.map((operation) => [
        operation,
        sourceOf(operation, population, { among: operation === 'refresh' ? 1 : 0 }),
      ]),
    ) as Record<Operation, ReturnType<typeof sourceOf>>;
    const rounds: Round[] = [];
    const run = () =>
      replicas.run(
        callersOf(setUp.connections, () => sources[chosen(setUp)]),
        LONGER * bench.seconds,
      );
    // Not counted: logins would leave the compiler few requests to learn from.
    const known = mix(0, 0, 0, { verify: 500, refresh: 500 });
    await replicas.run(
      callersOf(setUp.connections, () => sources[chosen(known)]),
      LONGER * bench.seconds,
    );
    await sleep(bench.reportSeconds * 1000);
    const { rows: before } = await bench.meter.read();
    for (let i = 0; i < bench.rounds; i++) rounds.push(await run());
    await sleep(bench.reportSeconds * 1000);
    const { rows: after } = await bench.meter.read();
    const requests = rounds.reduce((sum, round) => sum + round.requests, 0);
    const of = (name: keyof Round) => sampleOf(rounds.map((round) => round[name]));
    return {
      ...setUp,
      perSecond: of('perSecond'),
      micros: of('micros'),
      redisMicros: of('redisMicros'),
      postgresMicros: of('postgresMicros'),
      rows: (after - before) / requests,
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
