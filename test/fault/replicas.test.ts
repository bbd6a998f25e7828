import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { testScale } from '../support/environment.ts';
import { testDatabase } from '../support/postgres.ts';
import { startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { eventually } from '../support/until.ts';
import { strike, type Fault } from './harness/fault.ts';
import { isReady, type Replica } from './harness/replica.ts';
import { startWorld } from './harness/world.ts';

const KILLS = Math.ceil(50 * testScale);
const DRAINS = Math.ceil(4 * testScale);
/** Milliseconds; no store is down, but the processes that start leave the requests little of the machine. */
const BOUND = 15_000;
/** Milliseconds after which no other replica is killed: a start takes 2 s on two idle cores, and 12 s on busy ones. */
const LONGEST = 180_000;

test('replicas come and go under load', { skip: toolsMissing('redis-server') }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = await startRedis(t);
  const stores = { DATABASE_URL: url, REDIS_URL: redis.url };
  const world = await startWorld(t, { ...stores, DRAIN_DELAY: '2', SHUTDOWN_TIMEOUT: '10' });
  const { replicas, tally } = world;

  const killed: Fault = {
    name: `replicas killed (SIGKILL) up to ${KILLS} times, both at once at every tenth, and Redis emptied at every fifth`,
    bound: BOUND,
    seconds: 0,
    // If no replica is left that knew the emptied Redis, those that start wait for half a minute (ADR 26).
    recovery: 60,
    async strike() {
      const begun = Date.now();
      for (let kill = 1; kill <= KILLS && Date.now() - begun < LONGEST; kill++) {
        await sleep(Math.random() * 500);
        const dying = kill % 10 === 0 ? replicas : [replicas[kill % 2 === 0 ? 0 : 1]];
        await Promise.all(dying.map((replica) => replica.stop('SIGKILL')));
        // The killed replica's unwritten notes are lost from both places.
        if (kill % 5 === 0) await redis.ask('FLUSHALL');
        await Promise.all(dying.map((replica) => replica.start()));
      }
    },
  };
  await world.recovered(20);
  await t.test('killed', (t) => strike(t, world, killed));

  const drained: Fault = {
    name: `replicas ended (SIGTERM) ${DRAINS} times behind a balancer that checks readiness`,
    bound: BOUND,
    seconds: 0,
    async strike() {
      for (let i = 0; i < DRAINS; i++) await drain(replicas[i % 2 === 0 ? 0 : 1]);
    },
  };
  await t.test('drained', async (t) => {
    await strike(t, world, drained);
    t.equal(tally.lost, 0, 'no request was lost');
  });

  async function drain(replica: Replica): Promise<void> {
    const ended = replica.stop('SIGTERM');
    await eventually(5, async () => ((await replica.readiness()) === 503 ? null : 'ready after SIGTERM'));
    replica.inRotation = false;
    const code = await ended;
    if (code !== 0) tally.problems.push(`a drained replica ended with ${code}`);
    await replica.start();
    await isReady(replica);
    replica.inRotation = true;
  }
});
