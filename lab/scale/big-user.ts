import { requestText } from '../../test/support/generator/requests.ts';
import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { Bench } from './measure.ts';
import { populate } from '../bench/population.ts';
import { startReplicas, type Round } from './replicas.ts';
import { callersOf, sourceOf } from './workloads.ts';

export const USER_OPERATIONS = ['login', 'token list', 'logout everywhere'] as const;

/** One operation of a user with many sessions. Times in milliseconds. */
export interface UserFigure {
  operation: (typeof USER_OPERATIONS)[number];
  tokens: number;
  took: Sample;
  /** CPU of the replica and of PostgreSQL. */
  cpu: Sample;
  postgres: Sample;
}

/** Longer than any request takes, in seconds. */
const LONG = 60;

/** The users log in, list their tokens, and log out everywhere, one request at a time. */
export async function measureBigUser(bench: Bench, tokens: number): Promise<UserFigure[]> {
  const users = Math.max(2, bench.rounds);
  const population = await populate(bench.world, tokens * users, { users });
  const logins = sourceOf('login', population);
  const replicas = await startReplicas(bench.world, bench.meter, 1, { MAX_SESSIONS_PER_USER: '10000' });
  const rounds: Record<UserFigure['operation'], Round[]> = {
    login: [],
    'token list': [],
    'logout everywhere': [],
  };
  const ask = async (operation: UserFigure['operation'], request: string) => {
    let answer = '';
    let isSent = false;
    const caller = {
      next: () => {
        if (isSent) return null;
        isSent = true;
        return request;
      },
      answered: (body: string) => {
        answer = body;
      },
    };
    rounds[operation].push(await replicas.run([caller], LONG));
    return answer;
  };
  try {
    // Not counted: the first requests of a replica.
    await replicas.run(
      callersOf(1, () => sourceOf('verify', population)),
      bench.seconds,
    );
    for (let i = 0; i < users; i++) {
      const { access_token: token } = JSON.parse(await ask('login', logins.next().request)) as {
        access_token: string;
      };
      await ask('token list', requestText('GET /api/user', { token }));
      await ask('logout everywhere', requestText('DELETE /api/user/tokens', { token }));
    }
  } finally {
    await replicas.stop();
  }
  return USER_OPERATIONS.map((operation) => {
    const of = (read: (round: Round) => number) => sampleOf(rounds[operation].map(read));
    return {
      operation,
      tokens,
      took: of(({ perSecond }) => 1000 / perSecond),
      cpu: of(({ micros }) => micros / 1000),
      postgres: of(({ postgresMicros }) => postgresMicros / 1000),
    };
  });
}
