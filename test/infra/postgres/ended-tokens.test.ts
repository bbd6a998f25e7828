import { test, type Test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import type { Lifetimes } from '../../../src/domain/tokens/claims.ts';
import type { TokenStore } from '../../../src/domain/tokens/ports.ts';
import type { Prisma, PrismaClient } from '../../../src/generated/prisma/client.ts';
import { makeInLane } from '../../../src/infra/postgres/account-transaction.ts';
import { makeRevocationStore } from '../../../src/infra/postgres/revocation-store.ts';
import { makeStateWriter } from '../../../src/infra/postgres/state-writer.ts';
import { makeTokenStore } from '../../../src/infra/postgres/token-store.ts';
import { inTransaction } from '../../../src/infra/postgres/prepared.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';
import { LIFETIMES, ROOM } from '../../support/token.ts';

const DAY = 86_400_000;
const AT = 1_795_000_000_789;
const range = { since: 0, now: AT, limit: 101 };
const aSession = (createdAt: number, used = createdAt) => ({
  name: 'Firefox',
  createdAt,
  state: initialState(used * 1000, 'home'),
});
const aLongLived = (createdAt: number, expiresAt: number | null = null) => ({
  name: 'Kitchen',
  createdAt,
  kid: 'a key',
  expiresAt,
  createdBy: null,
});

/** A user with tokens of every kind, a store with these lifetimes, and the ends in the record by name. */
async function aHistory(t: Test, lifetimes: Lifetimes) {
  const { url, postgres, aSession: aUser } = await testRecords(t);
  const tokens = makeTokenStore(postgres, lifetimes);
  const { userId, tokenId } = await aUser();
  const names = new Map([[tokenId, 'first']]);
  const logIn = async (name: string, used: number, createdAt = used) => {
    const id = (await tokens.addSession(userId, aSession(createdAt, used), ROOM))?.id ?? 0;
    names.set(id, name);
    return id;
  };
  const create = async (name: string, expiresAt: number | null) => {
    const id = (await tokens.addLongLived(userId, aLongLived(AT - 5 * DAY, expiresAt), 100)) ?? 0;
    names.set(id, name);
    return id;
  };
  const old = AT - 3 * DAY;
  const unused = await logIn('long unused', old);
  await tokens.revoke(userId, await logIn('revoked when expired', old), AT - 5);
  await tokens.revokeForReuse(userId, await logIn('stolen when expired', old), AT - 4, 1);
  await tokens.revoke(userId, await logIn('revoked', AT), AT - 3);
  const behind = await logIn('unused for two hours', AT - 7_200_000);
  await logIn('live', AT, AT - DAY);
  await create('LLT', null);
  await create('LLT expired', AT - 2 * DAY);
  await tokens.revoke(userId, await create('LLT revoked when expired', AT - 2 * DAY), AT - 2);
  await tokens.revoke(userId, await create('LLT revoked', AT + DAY), AT - 1);
  const written = async () => {
    const rows = await sql<{ id: string }>(
      url,
      'SELECT id FROM tokens WHERE user_id = $1 AND ended_at IS NOT NULL ORDER BY id',
      [userId],
    );
    return rows.map(({ id }) => names.get(Number(id)));
  };
  const listed = async (at = AT, times = lifetimes, since = 0) =>
    (await tokens.listEnded(userId, { ...range, since, now: at }, times)).map(({ id, endedAt, reason }) => [
      names.get(id),
      endedAt - AT,
      reason,
    ]);
  return { prisma: postgres.prisma, tokens, userId, unused, behind, logIn, written, listed };
}

test('the list of ended tokens is the same before and after their ends are written', async (t) => {
  const { logIn, written, listed } = await aHistory(t, LIFETIMES);
  const before = await listed();
  t.equal(before.length, 9);
  await logIn('newest', AT);
  const over = ['first', 'long unused', 'revoked when expired', 'stolen when expired', 'revoked'];
  const overLlt = ['LLT expired', 'LLT revoked when expired', 'LLT revoked'];
  t.strictSame(await written(), [...over, ...overLlt], 'a refresh may still save a session');
  t.strictSame(await listed(), before);
  const isWritten = ([name]: unknown[]) => [...over, ...overLlt].includes(String(name));
  const longer = { ...LIFETIMES, refreshToken: 9 * LIFETIMES.refreshToken };
  const moved = (await listed(AT, longer)).filter(isWritten);
  t.strictSame(moved, before.filter(isWritten), 'a written end does not move with the lifetimes');
});

test('a theft that is found after the written end of its session ends it then', async (t) => {
  const { tokens, userId, behind, logIn, listed } = await aHistory(t, LIFETIMES);
  await logIn('of a later day', AT + 2 * DAY);
  await tokens.revokeForReuse(userId, behind, AT + 2 * DAY, 1);
  const theft = ['unused for two hours', 2 * DAY, 'reuse'];
  for (const step of ['open', 'written']) {
    t.strictSame((await listed(AT + 2 * DAY, LIFETIMES, AT + DAY))[0], theft, step);
    await logIn('newest', AT + 2 * DAY);
  }
});

test('a session whose record was far behind is open again with its next state', async (t) => {
  const { prisma, userId, unused, logIn, written } = await aHistory(t, LIFETIMES);
  await logIn('newest', AT);
  t.ok((await written()).includes('long unused'));
  const state = initialState(AT * 1000, 'home');
  await makeStateWriter(prisma).saveStates([{ userId, tokenId: unused, state }]);
  t.notOk((await written()).includes('long unused'));
});

test('what looks expired by the settings or clock of one replica stays within reach of revocation', async (t) => {
  const { tokens, userId, logIn, written, listed } = await aHistory(t, { ...LIFETIMES, session: 3600 });
  const before = await listed();
  const goodFor = await tokens.addLongLived(userId, aLongLived(AT, Date.now() + DAY), 100);
  await logIn('newest', AT);
  t.strictSame(await listed(), before);
  await logIn('in use', Date.now());
  await logIn('by a clock that is ahead', Date.now(), Date.now() + 9 * DAY);
  t.notOk((await written()).includes('in use'));
  const ending = { at: AT, reason: 'password', usedSince: 0, caller: null, keepsCaller: false } as const;
  const { ended } = await tokens.revokeAll(userId, ending);
  t.match(new Set(ended.map(({ name, id }) => (id === goodFor ? 'LLT' : name))), new Set(['Firefox', 'LLT']));
  t.strictSame(await tokens.list(userId), []);
});

test('no operation reads a history of 80,000 ended tokens', async (t) => {
  const { url, postgres, aSession: aUser } = await testRecords(t);
  const { userId } = await aUser(initialState(AT * 1000, 'home'));
  const { userId: other } = await aUser(initialState(AT * 1000, 'home'));
  const ended = `INSERT INTO tokens (user_id, type, name, created_at, latest, revoked_at, end_reason, ended_at)
    SELECT $1, CASE WHEN i % 2 = 0 THEN 'session' ELSE 'llt' END::token_type, 'x', at, 1, at, 'logout', at
    FROM generate_series(1, 80000) AS i, LATERAL (SELECT to_timestamp($2) - i * interval '1 second') AS one(at)`;
  await sql(url, ended, [userId, AT / 1000]);
  const tokens = makeTokenStore(postgres, LIFETIMES);
  const added = await tokens.addSession(userId, aSession(AT), ROOM);
  await sql(url, ended, [other, AT / 1000]);
  await sql(url, 'ANALYZE tokens');

  const counter = async (tx: Prisma.TransactionClient) => {
    const [row] = await tx.$queryRaw<[{ reads: number }]>`
      SELECT sum(pg_stat_get_xact_tuples_returned(oid))::int AS reads FROM (
        SELECT 'tokens'::regclass::oid AS oid
        UNION ALL SELECT indexrelid FROM pg_index WHERE indrelid = 'tokens'::regclass) AS relations`;
    return row.reads;
  };
  /** The index entries and rows of `tokens` that PostgreSQL reads for it. */
  const readsOf = (run: (prisma: PrismaClient) => Promise<unknown>): Promise<number> =>
    postgres.prisma.$transaction(async (tx) => {
      const nested = new Proxy(tx, {
        get: (target, name): unknown =>
          name === '$transaction'
            ? (work: (inner: typeof tx) => unknown) => work(tx)
            : Reflect.get(target, name),
      });
      const before = await counter(tx);
      await run(nested as PrismaClient);
      return (await counter(tx)) - before;
    });
  const inStore = (run: (store: TokenStore) => Promise<unknown>) =>
    readsOf((prisma) => {
      const inLane = makeInLane(prisma, 1000);
      return run(makeTokenStore({ prisma, run: inTransaction(prisma), inLane }, LIFETIMES));
    });

  const page = (before?: { endedAt: number; id: number }) =>
    inStore(async (store) => {
      const found = await store.listEnded(userId, { ...range, before }, LIFETIMES);
      t.equal(found.length, range.limit);
    });
  // The page, and the open tokens.
  const bound = range.limit + 10;
  let newest = 0;
  const reads = {
    'the first page': await page(),
    'a page after 40,000': await page({ endedAt: AT - 40_000_000, id: 1 }),
    'the last page': await page({ endedAt: AT - 79_800_000, id: 1 }),
    'the live tokens': await inStore((store) => store.list(userId)),
    'a login': await inStore(async (store) => {
      newest = (await store.addSession(userId, aSession(AT), ROOM))?.id ?? 0;
    }),
    'a long-lived token': await inStore((store) => store.addLongLived(userId, aLongLived(AT), 9)),
    'a logout by another': await inStore((store) =>
      store.revokeByCaller({ userId, tokenId: added?.id ?? 0 }, 1, AT),
    ),
    'a logout everywhere': await inStore((store) => {
      const all = { at: AT, reason: 'logout', usedSince: 0, keepsCaller: false } as const;
      return store.revokeAll(userId, { ...all, caller: { tokenId: newest, withFactor: null } });
    }),
    'a theft': await inStore((store) => store.revokeForReuse(userId, added?.id ?? 0, AT, 1)),
    'a disabled user': await readsOf(async (prisma) => {
      await prisma.user.update({ where: { id: BigInt(userId) }, data: { disabledAt: new Date(AT) } });
      t.equal((await makeRevocationStore({ prisma, run: postgres.run }).marksOf([userId])).length, 1);
      await prisma.user.update({ where: { id: BigInt(userId) }, data: { disabledAt: null } });
    }),
  };
  for (const [what, count] of Object.entries(reads))
    t.ok(count > 0 && count <= bound, `${what} reads ${count}`);
});
