import { test } from 'tap';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { makeReadiness } from '../../src/runtime/readiness.ts';
import { testDatabase } from '../support/postgres.ts';

// Stores that go and come back are in test/e2e/stores-away.test.ts.

const tokenStates = { now: () => Promise.resolve(0) };

test('a full pool does not count as a database outage', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = makePostgres({ url, pool: 1, timeout: 60_000 });
  const busy = await postgres.pool.connect();
  t.teardown(async () => {
    busy.release();
    await postgres.close();
  });
  const readiness = makeReadiness({ postgres, tokenStates, isDraining: () => false });
  t.match(await readiness(), { ready: true, checks: { database: 'ok', sessions: 'ok' } });
});

test('without its database the service is not ready', async (t) => {
  const postgres = makePostgres({ url: 'postgres://unknown@127.0.0.1:1/none', pool: 1, timeout: 60_000 });
  t.teardown(() => postgres.close());
  const readiness = makeReadiness({ postgres, tokenStates, isDraining: () => false });
  t.match(await readiness(), {
    ready: false,
    checks: { database: 'PostgreSQL fails (ECONNREFUSED)', sessions: 'ok' },
  });
});
