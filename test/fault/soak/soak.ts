/**
 * `npm run test:soak`: steady load with random faults of Redis and PostgreSQL for SOAK_MINUTES (10); at the end memory,
 * handles, connections and tables must be flat. Exit code 1 if they are not, or if an invariant broke.
 * The soak does not kill replicas, because it measures their memory.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { faultProxy } from '../../support/fault-proxy.ts';
import { startPostgres } from '../../support/own-postgres.ts';
import { startRedis } from '../../support/redis-server.ts';
import { endure } from '../harness/fault.ts';
import { postgresFaults } from '../harness/postgres-faults.ts';
import { redisFaults } from '../harness/redis-faults.ts';
import { lineOf, reset } from '../harness/tally.ts';
import { startWorld } from '../harness/world.ts';
import { growthOf, measure } from './measures.ts';

const MINUTES = Number(process.env.SOAK_MINUTES ?? 10);
/** How long the load runs alone before the first and the last measurement; milliseconds. */
const [WARM_UP, COOL_DOWN] = [MINUTES * 12_000, MINUTES * 3000];
/** The pause between two faults. */
const QUIET = 2000;

const closers: (() => unknown)[] = [];
const scope = { teardown: (closer: () => unknown) => closers.unshift(closer) } as unknown as Test;
const say = (line: string) => process.stdout.write(`${line}\n`);
const problems: string[] = [];
let isInterrupted = false;
process.once('SIGINT', () => (isInterrupted = true));

try {
  await soak();
} finally {
  for (const closer of closers) await closer();
}
for (const problem of problems) say(`NOT FLAT OR BROKEN: ${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;

async function soak(): Promise<void> {
  const deadline = performance.now() + MINUTES * 60_000;
  const postgres = await startPostgres(scope);
  const redis = await startRedis(scope);
  const proxies = {
    database: await faultProxy(scope, postgres.url()),
    redis: await faultProxy(scope, redis.url),
  };
  const world = await startWorld(scope, { DATABASE_URL: proxies.database.url, REDIS_URL: proxies.redis.url });
  const faults = [...redisFaults(redis, proxies.redis), ...postgresFaults(postgres, proxies.database)];
  const total = { requests: 0, retries: 0, openings: 0, signOuts: 0, revokedTried: 0, revokedAccepted: 0 };
  const add = () => {
    for (const key of Object.keys(total) as (keyof typeof total)[]) total[key] += world.tally[key];
    problems.push(...world.tally.problems);
    reset(world.tally);
  };

  await world.recovered(20);
  await sleep(WARM_UP);
  const before = await measure(world, postgres, redis);
  while (performance.now() < deadline - COOL_DOWN && !isInterrupted) {
    const fault = faults[Math.floor(Math.random() * faults.length)];
    if (!fault) break;
    add();
    await endure(world, fault);
    say(lineOf(fault.name, world.tally));
    await sleep(QUIET);
  }
  await sleep(COOL_DOWN);
  add();
  const after = await measure(world, postgres, redis);
  problems.push(...growthOf(before, after, total.openings));
  say(`soak: ${MINUTES} minutes: ${JSON.stringify(total)}`);
  for (const key of Object.keys(before) as (keyof typeof before)[]) {
    say(`  ${key.padEnd(20)} ${before[key].toFixed(0).padStart(8)} ${after[key].toFixed(0).padStart(8)}`);
  }
  if (total.signOuts > 0) problems.push(`${total.signOuts} sign-outs`);
  if (total.revokedAccepted > 0) problems.push(`${total.revokedAccepted} revoked tokens accepted`);
}
