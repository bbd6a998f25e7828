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
} from '../../support/client.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const ROUTE = 'GET /api/user';

interface Token {
  id: number;
  type: string;
  name: string;
  created_at: string;
  last_used_at: string | null;
  expires_at: string | null;
  current: boolean;
}

onAStore('the profile', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const tokensOf = async (token: string) =>
    (await call(target, ROUTE, { token })).json<{ tokens: Token[] }>().tokens;

  await t.test('shows the user and every live token, and marks the current one', async (t) => {
    const account = anAccount();
    const pair = await signUp(target, account);
    const { id, longlived_token: llt } = await createLongLived(target, pair.access_token);
    const session = Number(claimsOf(pair.access_token).sid);
    const response = await call(target, ROUTE, { token: pair.access_token });
    const { tokens, ...user } = response.json<{ tokens: Token[] }>();
    t.strictSame(user, { ...pair.user, locale: null });
    t.equal(response.headers['cache-control'], 'no-store');
    const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
    t.match(tokens, [
      { id: session, type: 'refresh', created_at: time, last_used_at: time, expires_at: time, current: true },
      { id, type: 'llt', name: 'Kitchen tablet', created_at: time, current: false },
    ]);
    t.equal(tokens[1]?.last_used_at, null);
    t.equal(tokens[1]?.expires_at, null);
    const times = ['created_at', 'expires_at', 'last_used_at'];
    const keys = [...times, 'audience', 'created_by', 'current', 'id', 'name', 'scopes', 'type'].sort();
    for (const token of tokens) t.strictSame(Object.keys(token).sort(), keys);
    t.notMatch(response.body, account.email);

    await verify(target, llt);
    const asked = await tokensOf(llt);
    t.strictSame(
      asked.map(({ current }) => current),
      [false, true],
    );
    t.match(asked[1]?.last_used_at, time, 'its use is recorded');
  });

  await t.test('computes the expiry of a session from its last refresh', async (t) => {
    const pair = await signUp(target);
    const [before] = await tokensOf(pair.access_token);
    const next = pairOf(await refresh(target, pair.refresh_token));
    const [after] = await tokensOf(next.access_token);
    t.ok(Date.parse(after?.expires_at ?? '') >= Date.parse(before?.expires_at ?? ''));
    const issued = Math.floor(Number(claimsOf(next.access_token).gen) / 1e6);
    t.equal(Math.floor(Date.parse(after?.expires_at ?? '') / 1000), issued + 2_592_000);
    t.equal(Math.floor(Date.parse(after?.last_used_at ?? '') / 1000), issued);
  });

  await t.test('leaves out revoked and expired tokens and those of other users', async (t) => {
    const { username, ...account } = anAccount();
    const pair = await signUp(target, { username, ...account });
    await signUp(target);
    const ended = await logIn(target, username);
    await call(target, 'DELETE /api/auth', { token: ended.access_token });
    const { id } = await createLongLived(target, pair.access_token);
    await call(target, `DELETE /api/auth/llt/${id}`, { token: pair.access_token });
    const old = (Date.now() - 31 * 86_400_000) * 1000;
    await sql(
      target.databaseUrl,
      `INSERT INTO tokens (user_id, type, name, created_at, latest, first) VALUES ($1, 'session', 'x', now(), $2, $2)`,
      [pair.user.id, old],
    );
    t.strictSame(
      (await tokensOf(pair.access_token)).map((token) => token.id),
      [claimsOf(pair.access_token).sid],
    );
  });

  await t.test('shows the given name of a device', async (t) => {
    const { username, password, ...account } = anAccount();
    const device = ' Küche 📱 ';
    const payload = { username, password, ...account, device };
    const { access_token } = pairOf(await call(target, 'POST /api/auth/signup', { payload }));
    await call(target, 'POST /api/auth', { payload: { username, password, device: 'Hall' } });
    t.strictSame(
      (await tokensOf(access_token)).map(({ name }) => name),
      ['Küche 📱', 'Hall'],
    );
  });
});
