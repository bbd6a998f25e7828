import pg from 'pg';
import { test } from 'tap';
import { mapDatabaseErrors } from '../../../src/infra/postgres/errors.ts';
import { makeTokenStore } from '../../../src/infra/postgres/token-store.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase, withClient } from '../../support/postgres.ts';
import { testRecords } from '../../support/records.ts';
import { LIFETIMES, ROOM } from '../../support/token.ts';
import { until } from '../../support/until.ts';

test('work after a timed-out transaction is not lost', async (t) => {
  const { url, aSession } = await testRecords(t);
  const [held, free] = [await aSession(), await aSession()];
  // A pool of one: the next query gets the connection that timed out, or a new one.
  const postgres = openPostgres(t, { url, timeout: 300 });
  const tokens = makeTokenStore(postgres, LIFETIMES);
  const session = {
    name: 'x',
    createdAt: 1,
    state: { latest: 9e6, parent: 0, first: 9e6, confirmed: false, caller: '' },
  };

  await withClient(url, async (other) => {
    await other.query('BEGIN');
    await other.query('SELECT id FROM users WHERE id = $1 FOR UPDATE', [held.userId]);
    const waiting = tokens.addSession(held.userId, session, ROOM);
    await t.rejects(waiting, { code: 'unavailable' });
    await other.query('ROLLBACK');
  });

  await until(async () => {
    try {
      return (await tokens.revoke(free.userId, free.tokenId, Date.now())) !== null;
    } catch {
      return false;
    }
  });
  await withClient(url, async (other) => {
    const seen = await other.query<{ revoked_at: Date | null }>(
      'SELECT revoked_at FROM tokens WHERE id = $1',
      [free.tokenId],
    );
    t.type(seen.rows[0]?.revoked_at, Date, 'seen from outside, so it was committed');
    const added = await other.query('SELECT 1 FROM tokens WHERE user_id = $1', [held.userId]);
    t.equal(added.rowCount, 1, 'and the timed-out work was not');
    await until(async () => {
      const idle = await other.query(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'",
      );
      return idle.rowCount === 0;
    });
  });
});

test('a busy connection is replaced at its maximum age, without losing work', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url, lifetime: 0.5 });
  const pids = new Set<number>();
  await until(async () => {
    const [row] = await postgres.prisma.$transaction(async (tx) => {
      await tx.$queryRaw`SELECT 1`;
      return tx.$queryRaw<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
    });
    pids.add(row?.pid ?? 0);
    return pids.size >= 3;
  });
  const { rows } = await withClient(url, (client) =>
    client.query<{ pid: number }>('SELECT pid FROM pg_stat_activity WHERE pid = ANY ($1)', [[...pids]]),
  );
  t.ok(rows.length <= 1, 'the earlier ones have ended');
});

test('a connection lost at any moment is an outage', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url });
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  await client.end();
  await t.rejects(
    mapDatabaseErrors(async () => client.query('SELECT 1')),
    { code: 'unavailable' },
  );

  const errors: unknown[] = [];
  for (let i = 0; i < 20; i++) {
    const work = mapDatabaseErrors(() =>
      postgres.prisma.$transaction(async (tx) => {
        await tx.$queryRaw`SELECT 1`;
        await withClient(url, (other) =>
          other.query(
            'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
          ),
        );
        await tx.$queryRaw`SELECT 1`;
      }),
    );
    await work.catch((error: unknown) => errors.push(error));
  }
  t.equal(errors.length, 20);
  for (const error of errors) t.match(error, { code: 'unavailable' });
});
