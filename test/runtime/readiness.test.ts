import { test } from 'tap';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { makeReadiness } from '../../src/runtime/readiness.ts';
import { openPostgres } from '../support/open-postgres.ts';
import { makeOwnRole } from '../support/own-role.ts';
import { testDatabase } from '../support/postgres.ts';

// Stores that go and come back are in test/e2e/stores-away.test.ts.

const right = { compare: () => Promise.resolve(), isWrong: () => false, state: () => 'ok' };
const tokenStates = { now: () => Promise.resolve(0) };

test('a full pool does not count as a database outage, and a wrong clock makes a replica not ready', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = makePostgres({ url, pool: 1, timeout: 60_000, observe: null });
  const busy = await postgres.pool.connect();
  t.teardown(async () => {
    busy.release();
    await postgres.close();
  });
  let isWrong = false;
  const clock = { ...right, isWrong: () => isWrong, state: () => (isWrong ? 'wrong' : 'ok') };
  const readiness = makeReadiness({ postgres, tokenStates, clock, isDraining: () => false });
  const checks = { database: 'ok', sessions: 'ok' };
  t.match(await readiness(), { ready: true, checks, clock: 'ok' });
  isWrong = true;
  t.match(await readiness(), { ready: false, checks, clock: 'wrong' });
});

test('a full Redis is named, and its replicas stay in use', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url, timeout: 60_000 });
  const readiness = makeReadiness({
    postgres,
    tokenStates,
    redisFailure: () => 'OOM',
    clock: right,
    isDraining: () => false,
  });
  t.match(await readiness(), { ready: true, checks: { database: 'ok', sessions: 'full' } });
});

test('settings of the database that only an administrator can mend are named', async (t) => {
  const { url, set } = await makeOwnRole(t);
  await set({ session_replication_role: 'replica' });
  const postgres = openPostgres(t, { url, timeout: 60_000 });
  const readiness = makeReadiness({ postgres, tokenStates, clock: right, isDraining: () => false });
  t.match(await readiness(), {
    ready: false,
    checks: { database: /ALTER ROLE .* session_replication_role/ },
  });
});
