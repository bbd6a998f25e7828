import type pg from 'pg';
import { test } from 'tap';
import { mapDatabaseErrors } from '../../../src/infra/postgres/errors.ts';
import { locksAwaited } from '../../support/begun.ts';
import { withClient } from '../../support/postgres.ts';
import { testRecords } from '../../support/records.ts';
import { until } from '../../support/until.ts';

test('a transaction that lost a deadlock runs again', async (t) => {
  const { url, postgres, aSession } = await testRecords(t);
  const { userId, tokenId } = await aSession();
  let tries = 0;

  await withClient(url, async (other) => {
    // The last waiter detects the deadlock and is cancelled. The other one never checks.
    await other.query("SET deadlock_timeout = '1h'");
    await other.query('BEGIN');
    await other.query('SELECT id FROM tokens WHERE id = $1 FOR UPDATE', [tokenId]);
    let theirs: Promise<unknown> = Promise.resolve();

    await mapDatabaseErrors(() =>
      postgres.prisma.$transaction(async (tx) => {
        tries++;
        await tx.$queryRaw`SELECT id FROM users WHERE id = ${BigInt(userId)} FOR UPDATE`;
        if (tries === 1) {
          theirs = other
            .query('SELECT id FROM users WHERE id = $1 FOR UPDATE', [userId])
            .then(() => other.query('COMMIT'));
          await locksAwaited(url);
        }
        await tx.token.update({ where: { id: BigInt(tokenId) }, data: { name: 'renamed' } });
      }),
    );
    await theirs;
    t.equal(tries, 2);
    const { rows } = await other.query<{ name: string }>('SELECT name FROM tokens WHERE id = $1', [tokenId]);
    t.equal(rows[0]?.name, 'renamed');
  });
});

test('a repeated conflict is an outage after three tries', async (t) => {
  const { postgres, aSession, url } = await testRecords(t);
  const { tokenId } = await aSession();
  for (const state of ['40001', '40P01']) {
    let tries = 0;
    const work = mapDatabaseErrors(() =>
      postgres.prisma.$transaction(async (tx) => {
        tries++;
        await tx.token.update({ where: { id: BigInt(tokenId) }, data: { name: 'renamed' } });
        await tx.$executeRawUnsafe(`DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '${state}'; END $$`);
      }),
    );
    await t.rejects(work, { name: 'AuthError', code: 'unavailable' });
    t.equal(tries, 3, state);
  }
  await withClient(url, async (client) => {
    const { rowCount } = await client.query("SELECT 1 FROM tokens WHERE name = 'renamed'");
    t.equal(rowCount, 0);
  });
});

test('no other failure is retried', async (t) => {
  const { postgres } = await testRecords(t);
  for (const [state, expected] of [
    ['53300', { code: 'unavailable' }],
    ['57014', { code: 'unavailable' }],
    ['25006', { code: 'unavailable' }],
    ['25P03', { code: 'unavailable' }],
    ['25P04', { code: 'unavailable' }],
    ['22012', { name: 'PrismaClientKnownRequestError' }],
  ] as const) {
    let tries = 0;
    const work = mapDatabaseErrors(() => {
      tries++;
      return postgres.prisma.$executeRawUnsafe(
        `DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '${state}'; END $$`,
      );
    });
    await t.rejects(work, expected);
    t.equal(tries, 1, state);
  }
});

test('an idle transaction ended by the server is an outage', async (t) => {
  const { postgres, url } = await testRecords(t);
  const work = mapDatabaseErrors(() =>
    postgres.prisma.$transaction(async (tx) => {
      const [own] = await tx.$queryRaw<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      await tx.$executeRaw`SET LOCAL idle_in_transaction_session_timeout = '1ms'`;
      await until(() => isGone(url, own?.pid));
      await tx.$queryRaw`SELECT 1`;
    }),
  );
  await t.rejects(work, { name: 'AuthError', code: 'unavailable' });
});

async function isGone(url: string, pid: number | undefined): Promise<boolean> {
  return withClient(url, async (client: pg.Client) => {
    const { rowCount } = await client.query('SELECT 1 FROM pg_stat_activity WHERE pid = $1', [pid]);
    return rowCount === 0;
  });
}
