import { randomInt } from 'node:crypto';
import { test, type Test } from 'tap';
import { testScale } from '../support/environment.ts';
import { quietRedisClient, redisMissing, testRedis } from '../support/redis.ts';
import { makeClockedRedis } from './clocked-redis.ts';
import { makeCoverage } from './coverage.ts';
import { aHistory, type History } from './history.ts';
import { play, type Clock } from './play.ts';
import { shorten } from './shorten.ts';
import { makeSubjects, openInRedis, type Subjects } from './subjects.ts';

/** Concurrent histories: enough to keep Redis busy during the comparisons. */
const AT_ONCE = 200;

interface Run {
  count: number;
  /** Whether the test sets the scripts' time, so that a failure is reproducible. Otherwise Redis keeps the time. */
  exact: boolean;
}

/** @returns a function that gives each history its own session and clock. */
async function open(t: Test, exact: boolean): Promise<(userId: number) => Promise<[Subjects, Clock]>> {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 10_000 });
  await redis.connect();
  if (exact) {
    const withClock = makeClockedRedis(redis);
    return (userId) => {
      const clock = { micros: 1_795_000_000_123_457, next: () => ++clock.micros };
      const inRedis = openInRedis(
        withClock(() => clock.micros),
        prefix,
      );
      return Promise.resolve([makeSubjects({ redis, prefix, inRedis }, userId), clock]);
    };
  }
  const inRedis = openInRedis(redis, prefix);
  return async (userId) => {
    const [seconds = 0, micros = 0] = (await redis.time()).map(Number);
    const clock = { micros: seconds * 1_000_000 + micros, next: () => null };
    return [makeSubjects({ redis, prefix, inRedis }, userId), clock];
  };
}

async function run(t: Test, { count, exact }: Run): Promise<void> {
  const begin = await open(t, exact);
  const coverage = makeCoverage();
  let userId = 0;
  const fails = async (history: History): Promise<string | null> => {
    try {
      await play(history, ...(await begin(++userId)), coverage);
      return null;
    } catch (error) {
      return (error as Error).message;
    }
  };

  // The first one runs alone and loads the scripts, which keeps later commands in order.
  const firstSeed = Number(process.env.TEST_SEED ?? randomInt(2 ** 31));
  const failed: { history: History; why: string }[] = [];
  let played = 0;
  const playOn = async (until: number) => {
    while (played < until && failed.length === 0) {
      const history = aHistory(firstSeed + played++);
      const why = await fails(history);
      if (why !== null) failed.push({ history, why });
    }
  };
  await playOn(20);
  await Promise.all(Array.from({ length: AT_ONCE }, () => playOn(count)));

  for (const failure of failed.slice(0, 1)) await explain(t, failure, fails);
  t.equal(played, count, `played ${count} histories from seed ${firstSeed}`);
  const { lines, never } = coverage.report({ exact });
  t.comment([`seed ${firstSeed}, ${played} histories`, ...lines].join('\n'));
  // Fewer histories may miss a line by chance.
  if (testScale >= 1) t.strictSame(never, [], 'every line of the table was taken, and every limit met');
}

async function explain(
  t: Test,
  { history, why }: { history: History; why: string },
  fails: (history: History) => Promise<string | null>,
): Promise<void> {
  const shortest = await shorten(history, fails);
  t.fail(`TEST_SEED=${history.seed} differs: ${shortest.why ?? why}`, {
    window: history.window,
    shortest: shortest.why === null ? 'it did not fail again' : shortest.history.steps,
  });
}

test(
  'the pure function, Redis and memory agree on every history, to the microsecond',
  { skip: redisMissing },
  (t) => run(t, { count: Math.ceil(10_000 * testScale), exact: true }),
);

test('they agree by the clock of Redis itself', { skip: redisMissing }, (t) =>
  run(t, { count: Math.ceil(1_500 * testScale), exact: false }),
);
