import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, logIn, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { ALLOWED, exhaust, LIMITS, stranger } from '../../support/guessing.ts';
import { onEachLasting } from '../../support/lasting.ts';
import { refused } from '../../support/problem.ts';
import { aReset, redeem } from '../../support/resets.ts';
import { workDone } from '../../support/spy.ts';
import { onAStore } from '../../support/stores.ts';

const ROUTE = 'POST /api/user/password';
const OLD = 'difference engine';
const NEW = 'an analytical engine';

function change(target: TestApp, token: string | undefined, body: object = {}, headers = {}) {
  const payload = { current_password: OLD, new_password: NEW, ...body };
  return call(target, ROUTE, { token, payload, headers });
}

function attempt(target: TestApp, username: string, password: string) {
  return call(target, 'POST /api/auth', { payload: { username, password } });
}

onAStore('changing the password', async (t, env) => {
  const target = await buildTestApp(t, { env });

  await onEachLasting(
    t,
    'replaces the password; the session that asks stays, and the others end',
    async (t, lasting) => {
      const { createLongLived, verify } = lasting;
      const account = anAccount();
      const asking = await signUp(target, account);
      const others = [await logIn(target, account.username), await logIn(target, account.email)];
      const { longlived_token: llt } = await createLongLived(target, asking.access_token);
      const stranger = await signUp(target);

      const response = await change(target, asking.access_token);
      t.equal(response.statusCode, 200);
      t.strictSame(response.json(), { msg: 'password changed', ended: 2 });
      t.equal(response.headers['cache-control'], 'no-store');

      refused(t, await attempt(target, account.username, OLD), 401, 'invalid_credentials');
      refused(t, await attempt(target, account.email, OLD), 401, 'invalid_credentials');
      for (const other of others) {
        refused(t, await call(target, 'GET /api/user', { token: other.access_token }), 401, 'invalid_token');
        refused(t, await refresh(target, other.refresh_token), 401, 'invalid_token');
      }
      t.equal((await verify(target, asking.access_token)).statusCode, 200);
      t.equal((await verify(target, llt)).statusCode, 200, 'long-lived tokens stay by default');
      t.equal((await verify(target, stranger.access_token)).statusCode, 200);
      const next = pairOf(await refresh(target, asking.refresh_token));

      const { access_token: token } = await logIn(target, account.username, NEW);
      const list = (await call(target, 'GET /api/user/tokens', { token })).json<{
        ended: { id: number; reason: string }[];
      }>();
      t.strictSame(
        list.ended.map(({ id, reason }) => [id, reason]).sort(),
        others.map(({ access_token }) => [claimsOf(access_token).sid, 'password']).sort(),
      );
      t.equal((await verify(target, next.access_token)).statusCode, 200);
    },
  );

  await onEachLasting(t, 'ends long-lived tokens too if it is asked to', async (t, lasting) => {
    const { createLongLived, verify } = lasting;
    for (const [end_long_lived, status] of [
      [true, 401],
      [false, 200],
    ] as const) {
      const { access_token: token } = await signUp(target);
      const { longlived_token: llt } = await createLongLived(target, token);
      const response = await change(target, token, { end_long_lived });
      t.match(response.json(), { ended: end_long_lived ? 1 : 0 });
      t.equal((await verify(target, llt)).statusCode, status);
      t.equal((await verify(target, token)).statusCode, 200);
    }
  });

  await t.test('a wrong current password changes nothing', async (t) => {
    const account = anAccount();
    const { access_token: token, user } = await signUp(target, account);
    const other = await logIn(target, account.username);
    const response = await change(target, token, { current_password: 'a guess' });
    refused(t, response, 401, 'invalid_credentials');
    t.equal((await verify(target, other.access_token)).statusCode, 200);
    await logIn(target, account.username, OLD);
    t.match(target.audit().at(-2), {
      event: 'password.wrong',
      outcome: 'refused',
      actor: { type: 'user', user_id: user.id },
      details: { by: claimsOf(token).sid },
    });
  });

  await t.test('voids a reset token', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const reset = await aReset(target.databaseUrl, user.id);
    t.equal((await change(target, token)).statusCode, 200);
    refused(t, await redeem(target, reset), 401, 'invalid_reset_token');
  });
});

onAStore('guesses at the current password', async (t, env) => {
  await t.test('are limited for the session, whose owner strangers cannot lock out', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, ...LIMITS } });
    const account = anAccount();
    const { access_token: token, refresh_token } = await signUp(target, account);
    const { access_token: another } = await logIn(target, account.username);
    await exhaust(t, target, account.username);
    const steps = await workDone(t, async () => {
      for (let i = 0; i < ALLOWED; i++) {
        const wrong = { current_password: `guess ${i}` };
        refused(t, await change(target, token, wrong, stranger(i)), 401, 'invalid_credentials');
      }
      refused(t, await change(target, token), 429, 'rate_limited');
    });
    t.equal(steps.filter((step) => step.startsWith('verify a hash')).length, ALLOWED);
    // The session's device is the same at login.
    const headers = { authorization: `Bearer ${refresh_token}` };
    const payload = { username: account.username, password: OLD };
    refused(t, await call(target, 'POST /api/auth', { payload, headers }), 429, 'rate_limited');
    t.equal((await change(target, another)).statusCode, 200, 'another session has an allowance of its own');
  });

  await t.test('are limited by address, together with logins', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, RATE_LIMIT_LOGIN: '3/60' } });
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    await logIn(target, account.username);
    for (let i = 0; i < 2; i++)
      refused(t, await change(target, token, { current_password: 'a guess' }), 401, 'invalid_credentials');
    refused(t, await change(target, token), 429, 'rate_limited');
    refused(t, await attempt(target, account.username, OLD), 429, 'rate_limited');
  });
});
