import { test } from 'tap';
import type { AccountChanges } from '../../../src/domain/users/account.ts';
import { makeAccountStore } from '../../../src/infra/postgres/account-store.ts';
import type { ChangePosition } from '../../../src/domain/tokens/ports.ts';
import {
  CHANGED_SINCE,
  makeChangedUsers,
  PENDING_CHANGES,
} from '../../../src/infra/postgres/changed-users.ts';
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
  const { url, postgres, changes, aSession } = await testRecords(t);
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
    (await changes.changedSince(900_000, 10)).changes.map(({ user, status }) => [user.id, status]),
    [
      [renamed, null],
      ...statuses.map(({ userId, status }) => [userId, status]),
      [longAgo, null],
      [created, 'created'],
    ],
  );
});

test('the queries of feed and renewal read little among any number of tokens and users', async (t) => {
  const { url, aSession } = await testRecords(t);
  const { userId } = await aSession();
  await sql(
    url,
    `INSERT INTO tokens (user_id, type, name, created_at, revoked_at, settled_at)
     SELECT $1, 'session', 'x', now(), now(), now() - n * interval '1 millisecond' FROM generate_series(1, 50000) AS n`,
    [userId],
  );
  await sql(
    url,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash, changed_at, pending)
     SELECT n, n, n, '', '', now() - n * interval '1 millisecond', n % 10 = 0 FROM generate_series(1, 50000) AS n`,
  );
  await sql(url, 'VACUUM ANALYZE tokens, users');
  const [{ at } = { at: null }] = await sql<{ at: Date }>(
    url,
    "SELECT changed_at AS at FROM users WHERE username = '40000'",
  );
  const snapshot = snapshotQuery(0.5);
  const whole = [null, Number.MAX_SAFE_INTEGER, 3_600_000, 1000];
  for (const [what, text, values, indexes] of [
    [
      'snapshot',
      snapshot.text,
      snapshot.values,
      ['tokens_pending_idx', 'tokens_settled_at_idx', 'users_changed_at_id_idx'],
    ],
    ['first tokens', SETTLED_SINCE.text, whole, ['tokens_settled_at_idx']],
    ['next tokens', SETTLED_SINCE.text, [at, 0, 3_600_000, 1000], ['tokens_settled_at_idx']],
    ['first users', CHANGED_SINCE.text, whole, ['users_changed_at_id_idx']],
    ['next users', CHANGED_SINCE.text, [at, 0, 3_600_000, 1000], ['users_changed_at_id_idx']],
    ['pending users', PENDING_CHANGES.text, [0, 100], ['users_pending_idx']],
  ] as const) {
    const rows = await sql<{ 'QUERY PLAN': string }>(url, `EXPLAIN (ANALYZE, BUFFERS) ${text}`, [...values]);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    for (const index of indexes) t.match(plan, index, what);
    t.notMatch(plan, 'Seq Scan');
    // The first line with buffers is that of the whole plan.
    const buffers = [...(/^ *Buffers:.*$/m.exec(plan) ?? [])].join();
    const [hit = 0, read = 0] = ['hit', 'read'].map((kind) =>
      Number(new RegExp(`${kind}=(\\d+)`).exec(buffers)?.[1] ?? 0),
    );
    t.ok(hit + read > 0 && hit + read <= 1500, `${what}: ${hit + read} buffers`);
  }
});

test('changed users are listed by time and id, page by page', async (t) => {
  const { url, aSession, changes } = await testRecords(t);
  const ids = [];
  for (let i = 0; i < 4; i++) ids.push((await aSession()).userId);
  const [first, second, third, old] = ids as [number, number, number, number];
  const set = (id: number, ago: string) =>
    sql(
      url,
      `UPDATE users SET version = 7, changed_at = date_trunc('minute', now()) - $2::interval, roles = '{a,b}',
         email_verified_at = now() WHERE id = $1`,
      [id, ago],
    );
  for (const [id, ago] of [
    [second, '1 minute'],
    [first, '1 minute'],
    [third, '2 minutes'],
    [old, '2 hours'],
  ] as const)
    await set(id, ago);
  const seen: number[] = [];
  for (let after: ChangePosition | null | undefined; after !== null;) {
    const page = await changes.changedSince(3_600_000, 2, after);
    seen.push(...page.changes.map(({ user }) => user.id));
    after = page.next;
  }
  t.strictSame(seen, [third, first, second]);
  const [user] = (await changes.changedSince(3_600_000, 1)).changes;
  const known = await sql<{ username: string; name: string; created_at: Date }>(
    url,
    'SELECT username, name, created_at FROM users WHERE id = $1',
    [third],
  );
  const { username, name, created_at: createdAt } = known[0] ?? {};
  t.strictSame(user, {
    user: {
      id: third,
      username,
      name,
      createdAt: createdAt?.getTime(),
      disabled: false,
      emailVerified: true,
      roles: ['a', 'b'],
      version: 7,
    },
    status: null,
    isPending: false,
  });
});

test('a change whose commit came late is pending, with its status', async (t) => {
  const { url, aSession, changes, postgres } = await testRecords(t);
  const accounts = makeAccountStore(postgres, () => []);
  const [one, other] = [(await aSession()).userId, (await aSession()).userId];
  await accounts.change({ id: one }, { disabled: true }, Date.now());
  await accounts.change({ id: other }, { name: 'Countess' }, Date.now());
  await sql(
    url,
    `UPDATE users SET changed_at = changed_at - interval '5 minutes', disabled_at = disabled_at - interval '5 minutes'`,
  );
  // Its event was sent long ago.
  await sql(url, `UPDATE users SET enabled_at = now() - interval '1 day' WHERE id = ${other}`);
  t.strictSame((await changes.changedSince(60_000, 10)).changes, []);
  const pending = await changes.pendingChanges(10);
  t.strictSame(
    pending.map(({ user, status, isPending }) => [user.id, user.disabled, status, isPending]),
    [
      [one, true, 'disabled', true],
      [other, false, null, true],
    ],
  );
  t.strictSame(
    (await changes.pendingChanges(10, one)).map(({ user }) => user.id),
    [other],
  );
  t.equal((await changes.pendingChanges(1)).length, 1);
  await changes.settleChanges(pending.map(({ user }) => user));
  t.strictSame(await changes.pendingChanges(10), []);
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
  const changes = makeChangedUsers(standby);
  await t.rejects(changes.changedSince(1000, 10), { code: 'unavailable' });
  await t.rejects(changes.pendingChanges(10), { code: 'unavailable' });
});
