import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, createLongLived, logIn, refresh, signUp, verify } from '../../support/client.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../../support/factors.ts';
import { setUpApp } from '../../support/own-factors.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';
import { onEachStore } from '../../support/stores.ts';

onEachStore('a service sees and removes second factors', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const ask = await aManager(target.databaseUrl, target);
  const account = anAccount();
  const old = await signUp(target, account);
  const { id } = old.user;
  t.strictSame((await ask(`GET /api/users/${id}/factors`)).json(), { factors: [], recovery_codes_left: 0 });
  const factor = await aFactor(target, old);
  const pair = await logInWithFactor(target, account.username, factor);
  const { longlived_token: llt } = await createLongLived(target, pair.access_token);
  await setUpApp(target, pair.access_token);
  t.match((await ask(`GET /api/users/${id}/factors`)).json(), {
    factors: [{ id: factor.id, type: 'totp' }],
    recovery_codes_left: 10,
  });
  const login_token = await firstStep(target, account.username);

  const line = `DELETE /api/users/${id}/factors`;
  refused(t, await ask(line, { all: true }), 400, 'validation_failed');
  t.strictSame((await ask(line)).json(), { msg: 'second factors removed', ended: 3 });
  for (const token of [old.access_token, pair.access_token, llt])
    refused(t, await call(target, 'GET /api/user', { token }), 401, 'invalid_token');
  refused(t, await refresh(target, pair.refresh_token), 401, 'invalid_token');
  const [recovery_code = ''] = factor.recoveryCodes;
  refused(t, await secondStep(target, { login_token, recovery_code }), 401, 'invalid_login_token');
  for (const table of ['factors', 'recovery_codes'])
    t.strictSame(await sql(target.databaseUrl, `SELECT 1 FROM ${table} WHERE user_id = $1`, [id]), [], table);
  t.match(
    target.audit().filter(({ event }) => event === 'factors.removed_by_client'),
    [{ subject: { user_id: id }, details: { count: 3 } }],
  );

  const { access_token: token } = await logIn(target, account.email);
  t.match((await call(target, 'GET /api/user/tokens', { token })).json(), {
    ended: [{ reason: 'admin' }, { reason: 'admin' }, { reason: 'admin' }],
  });
  t.strictSame((await ask(line)).json(), { msg: 'second factors removed', ended: 1 }, 'a repeat');
  t.equal((await verify(target, token)).statusCode, 401);
  t.match((await ask(line)).json(), { ended: 0 });
  t.equal(target.audit().filter(({ event }) => event === 'factors.removed_by_client').length, 2);
  for (const method of ['GET', 'DELETE'])
    refused(t, await ask(`${method} /api/users/999999/factors`), 404, 'user_unknown');
});
