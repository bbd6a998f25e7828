import { test } from 'tap';
import { makePostgres } from '../../../src/infra/postgres/client.ts';
import { makeRevocationStore } from '../../../src/infra/postgres/revocation-store.ts';
import { makeRevokedTokens } from '../../../src/infra/postgres/revoked-tokens.ts';
import { withClient } from '../../support/postgres.ts';
import { testRecords } from '../../support/records.ts';

test('lists revocations that are pending or lately settled, by id', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const revoked = makeRevokedTokens(postgres.prisma);
  t.strictSame(await revoked.within(1000), []);
  const keys = [await aSession(), await aSession(), await aSession(), await aSession()];
  const [settled, pending, old] = keys.map(({ tokenId }) => tokenId) as [number, number, number];
  // A revocation may settle long after it was made. The time of its tombstone counts.
  for (const key of keys.slice(0, 3).reverse()) await tokens.revoke(key.userId, key.tokenId, 1000);
  await revocations.settle([settled, old]);
  await postgres.prisma.$executeRaw`
    UPDATE tokens SET settled_at = settled_at - interval '1000 seconds' WHERE id = ${old}`;
  t.strictSame(await revoked.within(900), [settled, pending]);
  t.strictSame(await revoked.within(1100), [settled, pending, old]);
  await revocations.settle([pending]);
  t.strictSame(await revoked.within(900), [settled, pending]);
});

test('the query uses the indexes for any number of tokens', async (t) => {
  const { url, aSession } = await testRecords(t);
  const { userId } = await aSession();
  await withClient(url, async (client) => {
    await client.query(
      `INSERT INTO tokens (user_id, type, name, created_at, revoked_at, settled_at)
       SELECT $1, 'session', 'x', now(), now(), now() - n * interval '1 minute' FROM generate_series(1, 50000) AS n`,
      [userId],
    );
    await client.query('ANALYZE tokens');
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(
      `EXPLAIN SELECT json_agg(id ORDER BY id)::text AS ids FROM (
         SELECT id FROM tokens WHERE pending
         UNION
         SELECT id FROM tokens WHERE settled_at > statement_timestamp() - 965 * interval '1 second'
       ) AS revoked`,
    );
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    t.match(plan, 'tokens_pending_idx');
    t.match(plan, 'tokens_settled_at_idx');
    t.notMatch(plan, 'Seq Scan');
  });
});

test('only a disabled user has a floor, and it is their newest token', async (t) => {
  const { aSession, revocations, tokens, postgres } = await testRecords(t);
  const [one, other] = [await aSession(), await aSession()];
  const newest = await tokens.addLongLived(
    one.userId,
    { name: 'x', createdAt: 1, kid: 'k', createdBy: null },
    10,
  );
  const users = [one.userId, other.userId];
  t.strictSame(await revocations.marksOf(users), []);
  await postgres.prisma.$executeRaw`UPDATE users SET disabled_at = now() WHERE id = ${one.userId}`;
  t.strictSame(await revocations.marksOf(users), [{ userId: one.userId, before: newest }]);
  t.strictSame(await revocations.marksOf([other.userId]), []);
  t.strictSame(await revocations.marksOf([]), []);
});

test('a standby is not read, because it may lack revocations', async (t) => {
  const { url, aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await revocations.settle([key.tokenId]);
  const standby = makePostgres({
    url: `${url}?options=-c%20default_transaction_read_only%3Don`,
    pool: 1,
    timeout: 10_000,
    observe: null,
  });
  t.teardown(() => standby.close());
  const asked = makeRevocationStore(standby.prisma);
  await t.rejects(makeRevokedTokens(standby.prisma).within(1000), { code: 'unavailable' });
  await t.rejects(asked.pending(10), { code: 'unavailable' });
  await t.rejects(asked.pending(10, key.userId), { code: 'unavailable' });
  await t.rejects(asked.settledSince({ ago: 1000 }, 10), { code: 'unavailable' });
});
