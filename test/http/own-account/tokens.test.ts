import type { Test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
  type Pair,
} from '../../support/client.ts';
import { latchkey } from '../../support/latchkey.ts';
import { onAStoreWithEachLasting } from '../../support/lasting.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const LIST = 'GET /api/user/tokens';
const END = 'DELETE /api/user/tokens';
const DAY = 86_400_000;

interface Ended {
  id: number;
  type: string;
  name: string;
  created_at: string;
  last_used_at: string | null;
  ended_at: string;
  reason: string;
}
interface Listed {
  tokens: { id: number; current: boolean }[];
  ended: Ended[];
  ended_next: string | null;
}

const idOf = ({ access_token: token }: Pair) => Number(claimsOf(token).sid);

onAStore('the owner’s tokens', async (t, env) => {
  const target = await buildTestApp(t, {
    env: { ...env, MAX_SESSIONS_PER_USER: '3', REFRESH_RETRY_WINDOW: '0' },
  });
  const list = async (token: string) => (await call(target, LIST, { token })).json<Listed>();

  await t.test('ended tokens show when and why they ended, newest first', async (t) => {
    const account = anAccount();
    const { username } = account;
    const stolen = await signUp(target, account);
    const next = pairOf(await refresh(target, stolen.refresh_token));
    await verify(target, next.access_token);
    refused(t, await refresh(target, stolen.refresh_token, { 'user-agent': 'a thief' }), 401, 'token_reused');
    const [oldest, out] = [await logIn(target, username), await logIn(target, username)];
    await call(target, 'DELETE /api/auth', { token: out.access_token });
    const pairs = [
      await logIn(target, username),
      await logIn(target, username),
      await logIn(target, username),
    ];
    const { access_token: token } = pairs[2] ?? oldest;
    const { id: llt } = await createLongLived(target, token);
    await call(target, `DELETE /api/auth/llt/${llt}`, { token });

    const response = await call(target, LIST, { token });
    t.equal(response.headers['cache-control'], 'no-store');
    const { tokens, ended, ended_next } = response.json<Listed>();
    t.strictSame(tokens, (await call(target, 'GET /api/user', { token })).json<Listed>().tokens);
    t.strictSame(
      ended.map(({ id, type, reason }) => [id, type, reason]),
      [
        [llt, 'llt', 'logout'],
        [idOf(oldest), 'refresh', 'replaced'],
        [idOf(out), 'refresh', 'logout'],
        [idOf(stolen), 'refresh', 'reuse'],
      ],
    );
    t.equal(ended_next, null);
    const times = ['created_at', 'ended_at', 'last_used_at'];
    const keys = [...times, 'audience', 'created_by', 'id', 'name', 'reason', 'scopes', 'type'].sort();
    const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
    for (const each of ended) {
      t.strictSame(Object.keys(each).sort(), keys);
      t.match(each, { created_at: time, ended_at: time });
    }
    t.equal(ended[0]?.name, 'Kitchen tablet');
    t.equal(ended[0]?.last_used_at, null);
    t.match(ended[1]?.last_used_at, time);
    t.notMatch(response.body, account.email);
  });

  await t.test('the reason tells apart an operator, an expiry and what is not known', async (t) => {
    const account = anAccount();
    const { username } = account;
    const { user } = await signUp(target, account);
    const insert = async (daysAgo: number, revokedDaysAgo: number | null = null) => {
      const [row] = await sql<{ id: string }>(
        target.databaseUrl,
        `INSERT INTO tokens (user_id, type, name, created_at, latest, first, revoked_at)
         VALUES ($1, 'session', 'old', $2, $3, $3, $4) RETURNING id`,
        [
          user.id,
          new Date(Date.now() - daysAgo * DAY),
          Math.floor((Date.now() - daysAgo * DAY) * 1000),
          revokedDaysAgo === null ? null : new Date(Date.now() - revokedDaysAgo * DAY),
        ],
      );
      return Number(row?.id);
    };
    const expired = await insert(45);
    await insert(61);
    const unnamed = await insert(20, 10);
    await insert(50, 31);
    const expiredFirst = await insert(50, 1);
    const DATABASE_URL = target.databaseUrl;
    const disabling = latchkey(['user', 'disable', username], { DATABASE_URL });
    target.composition.start();
    t.equal((await disabling).code, 0);
    await sql(DATABASE_URL, 'UPDATE users SET disabled_at = NULL WHERE id = $1', [user.id]);
    const { access_token: token } = await logIn(target, username);

    const { ended } = await list(token);
    t.match(ended[0], { reason: 'admin' });
    t.strictSame(
      ended.slice(1).map(({ id, reason }) => [id, reason]),
      [
        [unnamed, 'unknown'],
        [expired, 'expired'],
        [expiredFirst, 'expired'],
      ],
      'neither tokens that ended more than 30 days ago',
    );
    const day = (text = '') => Math.round((Date.now() - Date.parse(text)) / DAY);
    t.strictSame(
      ended.slice(1).map(({ ended_at }) => day(ended_at)),
      [10, 15, 20],
    );
  });

  await t.test('pages of a hundred show all of them', async (t) => {
    const pair = await signUp(target);
    const { id } = pair.user;
    await sql(
      target.databaseUrl,
      `INSERT INTO tokens (user_id, type, name, created_at, revoked_at, end_reason)
       SELECT $1, 'llt', n::text, now() - interval '1 day', now() - n * interval '1 minute', 'logout'
       FROM generate_series(1, 100) AS n`,
      [id],
    );
    const first = await list(pair.access_token);
    t.strictSame([first.ended.length, first.ended_next], [100, null]);
    const { id: llt } = await createLongLived(target, pair.access_token);
    await call(target, `DELETE /api/auth/llt/${llt}`, { token: pair.access_token });
    const then = await list(pair.access_token);
    t.equal(then.ended.length, 100);
    t.equal(then.ended[0]?.id, llt);
    t.equal(then.ended.at(-1)?.name, '99');
    const page = await call(target, `${LIST}?ended_before=${then.ended_next}`, { token: pair.access_token });
    t.match(page.json(), { ended: [{ name: '100' }], ended_next: null, tokens: [{ current: true }] });
    for (const query of [
      'ended_before=',
      'ended_before=x',
      'ended_before=1',
      'ended_before=-1.1',
      'page=2',
    ]) {
      refused(
        t,
        await call(target, `${LIST}?${query}`, { token: pair.access_token }),
        400,
        'validation_failed',
      );
    }
  });

  await t.test('a session is not expired if the record misses its last refresh', async (t) => {
    const pair = await signUp(target);
    const id = idOf(pair);
    await sql(target.databaseUrl, 'UPDATE tokens SET latest = $1 WHERE id = $2', [
      (Date.now() - 31 * DAY) * 1000,
      id,
    ]);
    const { tokens, ended } = await list(pair.access_token);
    t.match(tokens, [{ id, current: true }]);
    t.strictSame(ended, []);
  });
});

onAStoreWithEachLasting('logout everywhere', async (t, env, { createLongLived, verify }) => {
  const target = await buildTestApp(t, { env });
  const isOver = async (t: Test, { access_token, refresh_token }: Pair) => {
    refused(t, await verify(target, access_token), 401, 'invalid_token');
    refused(t, await refresh(target, refresh_token), 401, 'invalid_token');
  };
  const lives = async (t: Test, token: string) => {
    t.equal((await verify(target, token)).statusCode, 200);
  };
  /** An account with three sessions and an LLT. */
  async function anOwner() {
    const account = anAccount();
    const pairs = [await signUp(target, account), await logIn(target, account.username)] as const;
    const asking = await logIn(target, account.username);
    const { id, longlived_token: llt } = await createLongLived(target, asking.access_token);
    return { username: account.username, others: pairs, asking, llt, lltId: id };
  }

  await t.test('ends every session and long-lived token of the user, and of no other user', async (t) => {
    const { username, others, asking, llt } = await anOwner();
    const stranger = await signUp(target);
    const response = await call(target, END, { token: asking.access_token });
    t.equal(response.statusCode, 200, response.body);
    t.strictSame(response.json(), { msg: 'logged out everywhere', ended: 4 });
    t.equal(response.headers['cache-control'], 'no-store');
    for (const pair of [...others, asking]) await isOver(t, pair);
    refused(t, await verify(target, llt), 401, 'invalid_token');
    await lives(t, stranger.access_token);
    const repeat = await call(target, END, { token: asking.access_token });
    t.strictSame(repeat.json(), { msg: 'logged out everywhere', ended: 0 }, 'the answer may have been lost');
    refused(
      t,
      await call(target, `${END}?keep=current`, { token: asking.access_token }),
      401,
      'invalid_token',
    );

    const again = await logIn(target, username);
    await lives(t, again.access_token);
    const { ended } = (await call(target, LIST, { token: again.access_token })).json<Listed>();
    t.strictSame(
      ended.map(({ reason }) => reason),
      Array.from({ length: 4 }, () => 'logout'),
    );
  });

  await t.test('keeps the current session on request', async (t) => {
    const { others, asking, llt } = await anOwner();
    for (const ended of [3, 0]) {
      const response = await call(target, `${END}?keep=current`, { token: asking.access_token });
      t.strictSame(response.json(), { msg: 'logged out everywhere', ended });
    }
    for (const pair of others) await isOver(t, pair);
    refused(t, await verify(target, llt), 401, 'invalid_token');
    await lives(t, asking.access_token);
    await lives(t, pairOf(await refresh(target, asking.refresh_token)).access_token);
  });

  await t.test('refuses a malformed request, and revokes nothing', async (t) => {
    const { others, asking, llt } = await anOwner();
    const { access_token: token } = asking;
    for (const query of ['keep', 'keep=all', 'keep=current&keep=current', 'all=true']) {
      refused(t, await call(target, `${END}?${query}`, { token }), 400, 'validation_failed');
      refused(t, await call(target, `${END}?${query}`), 401, 'token_missing');
    }
    const end = (payload: string) =>
      call(target, END, { token, headers: { 'content-type': 'application/json' }, payload });
    refused(t, await end('{"keep":"current"}'), 400, 'validation_failed');
    for (const each of [...others, asking]) await lives(t, each.access_token);
    await lives(t, llt);
    t.equal((await end('{}')).statusCode, 200, 'but {} counts as no body');
  });
});
