import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, pairOf, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { disableUser, sql } from '../../support/sql.ts';
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

  await t.test('compares passwords after NFC, and otherwise exactly', async (t) => {
    const { username } = anAccount();
    await signUp(target, anAccount({ username, password: 'caf\u00e9 au lait' }));
    t.equal((await attempt({ username, password: 'cafe\u0301 au lait' })).statusCode, 200);
    for (const password of ['Caf\u00e9 au lait', ' caf\u00e9 au lait', 'cafe au lait']) {
      refused(t, await attempt({ username, password }), 401, 'invalid_credentials');
    }
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

  await t.test('gives unknown users, wrong passwords and disabled users the same answer', async (t) => {
    const gone = anAccount();
    await signUp(target, gone);
    await disableUser(target.databaseUrl, gone.username);
    const tries = [
      { username: 'unknown-user', password: PASSWORD },
      { username: 'unknown@example.com', password: PASSWORD },
      { username: ada.username, password: 'analytical engine' },
      { username: gone.username, password: PASSWORD },
      { username: gone.email, password: 'analytical engine' },
    ];
    const bodies = new Set<string>();
    for (const payload of tries) {
      const response = await attempt(payload);
      refused(t, response, 401, 'invalid_credentials');
      const { request_id, ...body } = response.json<Record<string, unknown>>();
      t.type(request_id, 'string');
      bodies.add(JSON.stringify(body));
    }
    t.equal(bodies.size, 1, 'the same body');
  });

  await t.test('records the known device, and reads it with the account in one query', async (t) => {
    const { username } = anAccount();
    await signUp(target, anAccount({ username }));
    const clients = () =>
      sql<{ client: string }>(
        target.databaseUrl,
        'SELECT client FROM known_devices JOIN users ON id = user_id WHERE username = $1',
        [username],
      );
    const [signedUp] = await clients();
    t.match(signedUp?.client, /^[\w-]{22}$/, 'at signup');
    await attempt({ username, password: PASSWORD });
    t.strictSame(await clients(), [signedUp], 'and at login');
    await attempt({ username, password: 'analytical engine' });
    const headers = { 'user-agent': 'Phone/2' };
    await call(target, ROUTE, { payload: { username, password: 'analytical engine' }, headers });
    t.strictSame(await clients(), [signedUp], 'not after a wrong password');
    t.equal(
      (await call(target, ROUTE, { payload: { username, password: PASSWORD }, headers })).statusCode,
      200,
    );
    t.equal((await clients()).length, 2);
  });
});
