import { test } from 'tap';
import type { AccountChanges } from '../../../src/domain/users/account.ts';
import { makeAccountStore } from '../../../src/infra/postgres/account-store.ts';
import { makeRevocationStore, SETTLED_SINCE } from '../../../src/infra/postgres/revocation-store.ts';
import { makeFeedRecord, snapshotQuery } from '../../../src/infra/postgres/feed-record.ts';
import { anAccount } from '../../support/client.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';

test('lists revocations that are pending or lately settled, by id', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const within = async (seconds: number) => (await makeFeedRecord(postgres.prisma).within(seconds)).tokens;
  t.strictSame(await within(1000), []);
  const keys = [await aSession(), await aSession(), await aSession(), await aSession()];
  const [settled, pending, old] = keys.map(({ tokenId }) => tokenId) as [number, number, number];
  // A revocation may settle long after it was made. The time of its tombstone counts.
  for (const key of keys.slice(0, 3).reverse()) await tokens.revoke(key.userId, key.tokenId, 1000);
  await revocations.settle([settled, old]);
  await postgres.prisma.$executeRaw`
    UPDATE tokens SET settled_at = settled_at - interval '1000 seconds' WHERE id = ${old}`;
  t.strictSame(await within(900), [settled, pending]);
  t.strictSame(await within(1100), [settled, pending, old]);
  await revocations.settle([pending]);
  t.strictSame(await within(900), [settled, pending]);
});

test('lists users whose status has changed lately, and renewals tell the same', async (t) => {
  const { url, postgres, users, aSession } = await testRecords(t);
  const accounts = makeAccountStore(postgres, () => []);
  const set = (id: number, changes: AccountChanges) => accounts.change({ id }, changes, Date.now());
  const aUser = async (...changes: AccountChanges[]) => {
    const { userId } = await aSession();
    for (const each of changes) await set(userId, each);
    return userId;
  };
  await aUser();
  const renamed = await aUser({ name: 'Countess' });
  const disabled = await aUser({ disabled: true }, { name: 'Countess' });
  const enabled = await aUser({ disabled: true }, { disabled: false });
  const again = await aUser({ disabled: true }, { disabled: false }, { disabled: true });
  const deleted = await aUser({ disabled: true });
  await accounts.delete({ id: deleted }, Date.now(), { grace: 1000, hashes: () => [] });
  const longAgo = await aUser({ disabled: true });
  await sql(url, "UPDATE users SET disabled_at = disabled_at - interval '1000 seconds' WHERE id = $1", [
    longAgo,
  ]);
  const { username, name, email } = anAccount();
  const account = { username, name, email, roles: [], passwordHash: new Uint8Array(96) };
  const { id: created } = await accounts.add(account, true);

  const { statuses } = await makeFeedRecord(postgres.prisma).within(900);
  t.strictSame(statuses, [
    { userId: disabled, status: 'disabled', version: 2 },
    { userId: enabled, status: 'enabled', version: 2 },
    { userId: again, status: 'disabled', version: 3 },
    { userId: deleted, status: 'deleted', version: 2 },
  ]);
  t.strictSame(
    (await users.changedSince(900_000, 10)).map(({ user, status }) => [user.id, status]),
    [
      [renamed, null],
      ...statuses.map(({ userId, status }) => [userId, status]),
      [longAgo, null],
      [created, 'created'],
    ],
  );
});

test('the queries of feed and renewal use the indexes for any number of tokens and users', async (t) => {
  const { url, aSession } = await testRecords(t);
  const { userId } = await aSession();
  await sql(
    url,
    `INSERT INTO tokens (user_id, type, name, created_at, revoked_at, settled_at)
     SELECT $1, 'session', 'x', now(), now(), now() - n * interval '1 minute' FROM generate_series(1, 50000) AS n`,
    [userId],
  );
  await sql(
    url,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash, changed_at)
     SELECT n, n, n, '', '', now() - n * interval '1 minute' FROM generate_series(1, 50000) AS n`,
  );
  await sql(url, 'ANALYZE tokens, users');
  const snapshot = snapshotQuery(965);
  for (const [text, values, indexes] of [
    [snapshot.text, snapshot.values, ['tokens_pending_idx', 'tokens_settled_at_idx', 'users_changed_at_idx']],
    [SETTLED_SINCE.text, [null, Number.MAX_SAFE_INTEGER, 60_000, 1000], ['tokens_settled_at_idx']],
  ] as const) {
    const rows = await sql<{ 'QUERY PLAN': string }>(url, `EXPLAIN ${text}`, [...values]);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    for (const index of indexes) t.match(plan, index);
    t.notMatch(plan, 'Seq Scan');
  }
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
  const standby = openPostgres(t, { url, timeout: 10_000 });
  await standby.pool.query('SET default_transaction_read_only = on');
  const asked = makeRevocationStore(standby);
  await t.rejects(makeFeedRecord(standby.prisma).within(1000), { code: 'unavailable' });
  await t.rejects(asked.pending(10), { code: 'unavailable' });
  await t.rejects(asked.pending(10, key.userId), { code: 'unavailable' });
  await t.rejects(asked.settledSince({ ago: 1000 }, 10), { code: 'unavailable' });
});
