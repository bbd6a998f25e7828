import { test } from 'tap';
import type { Objection } from '../../src/domain/standing.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { makeReadiness } from '../../src/runtime/readiness.ts';
import { openPostgres } from '../support/open-postgres.ts';
import { makeOwnRole } from '../support/own-role.ts';
import { testDatabase } from '../support/postgres.ts';

// Stores that go and come back are in test/e2e/stores-away.test.ts.

const right = { compare: () => Promise.resolve(), isWrong: () => false, state: () => 'ok' };
const tokenStates = { now: () => Promise.resolve(0) };
let objection: Objection | null = null;
const standing = { objection: () => objection };

test('a full pool does not count as a database outage, but a wrong clock or setting makes it not ready', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = makePostgres({ url, pool: 1, timeout: 60_000, observe: null });
  const busy = await postgres.pool.connect();
  t.teardown(async () => {
    busy.release();
    await postgres.close();
  });
  let isWrong = false;
  const clock = { ...right, isWrong: () => isWrong, state: () => (isWrong ? 'wrong' : 'ok') };
  const readiness = makeReadiness({ postgres, tokenStates, clock, standing, isDraining: () => false });
  const checks = { database: 'ok', sessions: 'ok' };
  t.match(await readiness(), { ready: true, checks, clock: 'ok' });
  isWrong = true;
  t.match(await readiness(), { ready: false, checks, clock: 'wrong' });
  isWrong = false;
  objection = { about: 'ISSUER', problem: 'it is a here and b in the installation', action: 'set a' };
  const installation = 'ISSUER: it is a here and b in the installation. To do: set a';
  t.match(await readiness(), { ready: false, checks, installation });
  objection = null;
  t.match(await readiness(), { ready: true, installation: 'ok' });
});

test('a full Redis is named, and its replicas stay in use', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url, timeout: 60_000 });
  const readiness = makeReadiness({
    postgres,
    tokenStates,
    redisFailure: () => 'OOM',
    clock: right,
    standing,
    isDraining: () => false,
  });
  t.match(await readiness(), { ready: true, checks: { database: 'ok', sessions: 'full' } });
});

test('settings of the database that only an administrator can mend are named', async (t) => {
  const { url, set } = await makeOwnRole(t);
  await set({ session_replication_role: 'replica' });
  const postgres = openPostgres(t, { url, timeout: 60_000 });
  const readiness = makeReadiness({ postgres, tokenStates, clock: right, standing, isDraining: () => false });
  t.match(await readiness(), {
    ready: false,
    checks: { database: /ALTER ROLE .* session_replication_role/ },
  });
});
