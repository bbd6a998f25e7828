import { test } from 'tap';
import { faultProxy } from '../support/fault-proxy.ts';
import { startPgBouncer } from '../support/pgbouncer.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import { strike, type Fault } from './harness/fault.ts';
import { DATABASE_TIMEOUT, startWorld } from './harness/world.ts';

const missing = redisMissing || toolsMissing('bash', 'pgbouncer');
/** Fewer connections than the pools of two replicas would open. */
const POOL_SIZE = 3;
const BOUND = 6 * DATABASE_TIMEOUT;

test('behind PgBouncer in transaction mode', { skip: missing }, async (t) => {
  const { url } = await testDatabase(t);
  // The proxy sits between PgBouncer and PostgreSQL, so PgBouncer stays up when its server goes.
  const proxy = await faultProxy(t, url);
  const bouncer = await startPgBouncer(t, proxy.url, POOL_SIZE, DATABASE_TIMEOUT);
  const redis = testRedis(t);
  const world = await startWorld(t, {
    DATABASE_URL: bouncer.url,
    REDIS_URL: redis.url,
    REDIS_PREFIX: redis.prefix,
  });
  await world.recovered(20);

  const through = (name: string, how: 'refuse' | 'vanish', seconds: number): Fault => ({
    name: `PgBouncer: ${name}`,
    bound: BOUND,
    seconds,
    strike: () => {
      proxy.set(how);
    },
    heal: () => {
      proxy.set('pass');
    },
  });
  const faults: Fault[] = [
    {
      name: `PgBouncer: no fault, ${POOL_SIZE} connections`,
      bound: BOUND,
      seconds: 5,
      strike: () => null,
    },
    {
      name: 'PgBouncer killed and back',
      bound: BOUND,
      seconds: 1,
      strike: () => bouncer.kill(),
      heal: () => bouncer.start(),
    },
    through('PostgreSQL behind it away', 'refuse', 3),
    through('PostgreSQL behind it closes its connections', 'refuse', 0),
    through('PostgreSQL behind it gone without a word', 'vanish', 3),
  ];
  for (const fault of faults) await t.test(fault.name, (t) => strike(t, world, fault));

  const [row] = await sql<{ count: number }>(
    url,
    `SELECT count(*)::int FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()`,
  );
  t.ok((row?.count ?? 0) > 0, 'the load went through PgBouncer');
  t.ok((row?.count ?? Infinity) <= POOL_SIZE, `over ${row?.count ?? 0} connections`);
});
