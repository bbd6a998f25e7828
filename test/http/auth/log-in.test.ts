import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, pairOf, signUp, verify } from '../../support/client.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const ROUTE = 'POST /api/auth';
const PASSWORD = 'difference engine';

onAStore('login', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const attempt = (payload: unknown) => call(target, ROUTE, { payload });
  const ada = anAccount({ email: `Ada.${Date.now()}@Example.com` });
  await signUp(target, ada);

  await t.test('opens a new session, by username or e-mail address in any case', async (t) => {
    const { username, email } = ada;
    const sessions = new Set<unknown>();
    for (const name of [username, username.toUpperCase(), ` ${username} `, email, email.toUpperCase()]) {
      const response = await attempt({ username: name, password: PASSWORD });
      const pair = pairOf(response);
      t.strictSame(Object.keys(response.json()).sort(), ['access_token', 'refresh_token', 'user']);
      t.equal(pair.user.username, username);
      t.equal(response.headers['cache-control'], 'no-store');
      t.equal((await verify(target, pair.access_token)).statusCode, 200);
      sessions.add(claimsOf(pair.access_token).sid);
    }
    t.equal(sessions.size, 5);
  });

  await t.test('accepts a password that was set ten years ago', async (t) => {
    const { user } = await signUp(target);
    await sql(
      target.databaseUrl,
      `UPDATE users SET created_at = created_at - interval '10 years' WHERE id = ${user.id}`,
    );
    const response = await attempt({ username: user.username, password: PASSWORD });
    t.equal(response.statusCode, 200, response.body);
  });
});
