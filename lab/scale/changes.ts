import { setTimeout as sleep } from 'node:timers/promises';
import { requestText } from '../../test/support/generator/requests.ts';
import { populate, type Population } from '../bench/population.ts';
import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { Bench } from './measure.ts';
import { idleOf, startReplicas, type Idle, type Replicas } from './replicas.ts';

export const CHANGES = ['revocation', 'changed user'] as const;
export type Change = (typeof CHANGES)[number];

/**
 * What one change costs, with all that these replicas do about it afterwards. CPU times in microseconds,
 * without idle work.
 */
export interface ChangeFigure {
  change: Change;
  replicas: number;
  micros: Sample;
  redisMicros: Sample;
  postgresMicros: Sample;
  rows: Sample;
}

interface SetUp {
  replicas: readonly number[];
  /** Changes in a round, and rounds of each set-up. */
  count: number;
  rounds: number;
  /** Seconds after which replicas leave a change alone: longer than revocations.ts renews it. */
  afterwards: number;
}

const CONNECTIONS = 16;
/** Longer than the requests of a round take, in seconds. */
const LONG = 120;

/**
 * Logouts, and changes of names. The replicas of one set-up run at a time, because each may renew what another one has
 * done.
 */
export async function measureChanges(bench: Bench, setUp: SetUp): Promise<ChangeFigure[]> {
  const figures: ChangeFigure[] = [];
  for (const count of setUp.replicas) {
    // Each change has a session of its own, and two users are never the same within a round.
    const population = await populate(bench.world, 2 * setUp.count * setUp.rounds * CHANGES.length);
    const replicas = await startReplicas(bench.world, bench.meter, count);
    try {
      // Not counted: the end of the start, and the vacuum of what was seeded, which comes within a minute.
      await sleep(setUp.afterwards * 1000);
      const idle = await idleOf(bench.meter, [replicas], bench.hashSeconds * bench.rounds);
      let first = 0;
      for (const change of CHANGES) {
        const rounds: Use[] = [];
        for (let i = 0; i < setUp.rounds; i++, first += setUp.count)
          rounds.push(
            await measureRound(bench, replicas, idle, setUp, requestsOf(change, population, first, setUp)),
          );
        const of = (name: keyof Use) => sampleOf(rounds.map((round) => round[name]));
        figures.push({
          change,
          replicas: count,
          micros: of('micros'),
          redisMicros: of('redisMicros'),
          postgresMicros: of('postgresMicros'),
          rows: of('rows'),
        });
      }
    } finally {
      await replicas.stop();
    }
  }
  return figures;
}

function requestsOf(change: Change, population: Population, first: number, { count }: SetUp): string[] {
  return Array.from({ length: count }, (_, i) => {
    const token = population.mint('access', first + i);
    return change === 'revocation'
      ? requestText('DELETE /api/auth', { token })
      : requestText('PATCH /api/user', {
          token,
          headers: { 'Content-Type': 'application/json' },
          body: JSON.stringify({ name: `Ada ${first + i}` }),
        });
  });
}

/** Microseconds and rows of one change. */
interface Use {
  micros: number;
  redisMicros: number;
  postgresMicros: number;
  rows: number;
}

async function measureRound(
  bench: Bench,
  replicas: Replicas,
  idle: Idle,
  { afterwards }: SetUp,
  requests: string[],
): Promise<Use> {
  const { length } = requests;
  const caller = { next: () => requests.pop() ?? null };
  const { rows: before } = await bench.meter.read();
  const callers = Array.from({ length: CONNECTIONS }, () => caller);
  // One replica takes all: spread over many, requests would share fewer calls, which is not what a change
  // costs.
  const use = await replicas.run(callers, LONG, { idle, afterwards, through: replicas.urls[0] });
  if (use.requests !== length) throw new Error('the changes took too long: lower SCALE_CHANGES');
  const { rows: after } = await bench.meter.read();
  return { ...use, rows: (after - before) / length };
}
