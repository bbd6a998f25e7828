import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import type { SessionState } from '../../../src/domain/tokens/session-state.ts';
import type { TokenLimits } from '../../../src/domain/tokens/token-record.ts';
import { aClient, locksAwaited } from '../../support/begun.ts';
import { onEveryRecords, testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';

const rotated: SessionState = {
  latest: 3_000_000,
  parent: 2_000_000,
  first: 2_500_000,
  confirmed: false,
  caller: 'c',
};

onEveryRecords('moves a record on to a newer state, whole', async (t, { aSession, writer, stateOf }) => {
  const key = await aSession();
  t.strictSame(await writer.saveStates([{ ...key, state: rotated }]), []);
  t.strictSame(await stateOf(key.tokenId), rotated);
});

onEveryRecords('never moves a record back', async (t, { aSession, writer, stateOf }) => {
  const key = await aSession(rotated);
  await writer.saveStates([{ ...key, state: { ...rotated, latest: rotated.latest - 1, confirmed: true } }]);
  t.strictSame(await stateOf(key.tokenId), rotated);
});

onEveryRecords(
  'at the same generation a confirmation is kept and never undone',
  async (t, { aSession, writer, stateOf }) => {
    const key = await aSession(rotated);
    await writer.saveStates([{ ...key, state: { ...rotated, confirmed: true } }]);
    t.equal((await stateOf(key.tokenId))?.confirmed, true);
    await writer.saveStates([{ ...key, state: rotated }]);
    t.equal((await stateOf(key.tokenId))?.confirmed, true);
  },
);

onEveryRecords(
  'returns the records that are revoked, deleted or another user’s, and does not change them',
  async (t, { aSession, writer, tokens, stateOf }) => {
    const [live, revoked, other] = [await aSession(), await aSession(), await aSession()];
    await tokens.revoke(revoked.userId, revoked.tokenId, Date.now());
    const gone = { userId: live.userId, tokenId: 1_000_000 };
    const stolen = { userId: live.userId, tokenId: other.tokenId };
    const over = await writer.saveStates(
      [live, revoked, gone, stolen].map((key) => ({ ...key, state: rotated })),
    );
    t.strictSame(
      over.map(({ tokenId }) => tokenId).sort((a, b) => a - b),
      [revoked.tokenId, other.tokenId, gone.tokenId].sort((a, b) => a - b),
    );
    t.strictSame(await stateOf(live.tokenId), rotated);
    t.strictSame(await stateOf(revoked.tokenId), initialState(1_000_000, 'client'));
    t.strictSame(await stateOf(other.tokenId), initialState(1_000_000, 'client'));
  },
);

for (const save of ['saveStates', 'saveUses', 'saveReportedUses'] as const)
  test(`${save} locks its rows in the order of ids, so that no two batches deadlock`, async (t) => {
    const { url, aSession, writer } = await testRecords(t);
    const keys = await Promise.all(Array.from({ length: 20 }, () => aSession()));
    if (save === 'saveReportedUses') await sql(url, "UPDATE tokens SET type = 'llt'");
    keys.sort((one, other) => other.tokenId - one.tokenId);
    const [first, ...others] = keys.map(({ tokenId }) => tokenId).reverse();
    const other = await aClient(t, url);
    // It comes last, for a scan of the table and in the batch.
    await other.query('UPDATE tokens SET name = name WHERE id = $1', [first]);
    await other.query('BEGIN');
    await other.query('SELECT FROM tokens WHERE id = $1 FOR NO KEY UPDATE', [first]);
    const saved =
      save === 'saveStates'
        ? writer.saveStates(keys.map((key) => ({ ...key, state: rotated })))
        : writer[save](keys.map(({ tokenId }) => ({ tokenId, at: 1 })));
    await locksAwaited(url);
    await t.resolves(
      other.query('SELECT FROM tokens WHERE id = ANY($1) FOR NO KEY UPDATE NOWAIT', [others]),
      'while it waits for the first row, it holds no other',
    );
    await other.query('ROLLBACK');
    await saved;
  });

onEveryRecords('moves the last use of a token on, never back', async (t, { aSession, tokens, writer }) => {
  const { userId } = await aSession();
  const tokenId =
    (await tokens.addLongLived(
      userId,
      { name: 'x', createdAt: Date.now(), kid: 'a key', createdBy: null },
      5,
    )) ?? 0;
  for (const at of [5000, 4000]) await writer.saveUses([{ tokenId, at }]);
  t.equal((await tokens.find(tokenId))?.record.lastUsedAt, 5000);
});

onEveryRecords(
  'moves what services report only on live long-lived tokens, and once a minute',
  async (t, { aSession, tokens, writer }) => {
    const { userId, tokenId: session } = await aSession();
    const at = Date.now();
    const aToken = async (expiresAt: number | null = null, limited: TokenLimits | null = null) =>
      (await tokens.addLongLived(
        userId,
        { name: 'x', createdAt: at, kid: 'a key', createdBy: null, expiresAt, limited },
        9,
      )) ?? 0;
    const second = Math.floor(at / 1000) * 1000;
    const [plain, limited] = [
      await aToken(second + 60_000),
      await aToken(second + 60_000, { scopes: ['a'], audience: 'b' }),
    ];
    const [ended, expired] = [await aToken(), await aToken(second - 120_000)];
    await tokens.revoke(userId, ended, at);
    const ids = [plain, limited, ended, expired, session, 1_000_000];
    const report = (when: number) => writer.saveReportedUses(ids.map((tokenId) => ({ tokenId, at: when })));
    const uses = () => Promise.all(ids.map(async (id) => (await tokens.find(id))?.record.lastUsedAt ?? null));
    for (const [when, expected] of [
      [at - 60_000, at - 60_000],
      [at - 1, at - 60_000],
      [at - 90_000, at - 60_000],
      [at, at],
    ] as const) {
      await report(when);
      t.strictSame((await uses()).slice(0, 2), [expected, expected], `${when - at}`);
    }
    t.strictSame((await uses()).slice(2), [null, null, null, null]);
  },
);

test('what changes nothing is not even locked, since it is a service that names it', async (t) => {
  const { url, aSession, writer } = await testRecords(t);
  const { tokenId } = await aSession();
  const other = await aClient(t, url);
  await other.query('BEGIN');
  await other.query('SELECT FROM tokens WHERE id = $1 FOR UPDATE', [tokenId]);
  await t.resolves(writer.saveReportedUses([{ tokenId, at: Date.now() }]));
  await other.query('ROLLBACK');
});
