import { test } from 'tap';
import { makePostgres } from '../src/infra/postgres/client.ts';
import { makeReadiness } from '../src/readiness.ts';
import { testDatabase } from './support/postgres.ts';

// Stores that go and come back are in test/e2e/stores-away.test.ts.

const states = { now: () => Promise.resolve(0) };

test('a pool that is full is no database that is away', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = makePostgres({ url, pool: 1, timeout: 60_000 });
  const busy = await postgres.pool.connect();
  t.teardown(async () => {
    busy.release();
    await postgres.close();
  });
  const readiness = makeReadiness({ postgres, states, isDraining: () => false });
  t.match(await readiness(), { ready: true, checks: { database: 'ok', sessions: 'ok' } });
});

test('a database that is away makes nobody ready', async (t) => {
  const postgres = makePostgres({ url: 'postgres://nobody@127.0.0.1:1/none', pool: 1, timeout: 60_000 });
  t.teardown(() => postgres.close());
  const readiness = makeReadiness({ postgres, states, isDraining: () => false });
  t.match(await readiness(), { ready: false, checks: { database: 'cannot be reached', sessions: 'ok' } });
});
