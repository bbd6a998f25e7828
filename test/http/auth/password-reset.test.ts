import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, logIn, refresh, signUp, verify } from '../../support/client.ts';
import { disableAccount, enableAccount } from '../../support/accounts.ts';
import { LIMITS, stranger } from '../../support/guessing.ts';
import { onEachLasting } from '../../support/lasting.ts';
import { refused } from '../../support/problem.ts';
import { aReset, redeem } from '../../support/resets.ts';
import { workDone } from '../../support/spy.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const OLD = 'difference engine';
const NEW = 'an analytical engine';

onAStore('resetting a password', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const attempt = (username: string, password: string) =>
    call(target, 'POST /api/auth', { payload: { username, password } });

  await onEachLasting(
    t,
    'sets the password and ends every session and long-lived token',
    async (t, lasting) => {
      const { createLongLived, verify } = lasting;
      const account = anAccount();
      const pair = await signUp(target, account);
      const other = await logIn(target, account.username);
      const { id, longlived_token: llt } = await createLongLived(target, pair.access_token);
      const stranger = await signUp(target);
      const response = await redeem(target, await aReset(databaseUrl, pair.user.id));
      t.equal(response.statusCode, 200, response.body);
      t.strictSame(Object.keys(response.json()), ['msg'], 'no token, no user');
      t.equal(response.headers['cache-control'], 'no-store');

      for (const token of [pair.access_token, other.access_token, llt])
        refused(t, await verify(target, token), 401, 'invalid_token');
      for (const { refresh_token } of [pair, other])
        refused(t, await refresh(target, refresh_token), 401, 'invalid_token');
      t.equal((await verify(target, stranger.access_token)).statusCode, 200);
      refused(t, await attempt(account.username, OLD), 401, 'invalid_credentials');
      const { access_token: token } = await logIn(target, account.email, NEW);
      const { ended } = (await call(target, 'GET /api/user/tokens', { token })).json<{
        ended: { id: number; reason: string }[];
      }>();
      t.strictSame(
        ended.map((one) => [one.id, one.reason]).sort(),
        [id, claimsOf(pair.access_token).sid, claimsOf(other.access_token).sid]
          .map((each) => [each, 'password'])
          .sort(),
      );
      t.match(
        target.audit().findLast(({ event }) => event === 'password.reset'),
        { subject: { user_id: pair.user.id }, details: { count: 3 }, actor: { type: 'anonymous' } },
      );
    },
  );

  await t.test('a token has 256 random bits, and only its hash is stored', async (t) => {
    const { user } = await signUp(target);
    const token = await aReset(databaseUrl, user.id);
    t.match(token, /^lkr_[\w-]{43}$/);
    const [row] = await sql<{ text: string; size: number }>(
      databaseUrl,
      `SELECT password_resets::text, length(token_hash) AS size FROM password_resets WHERE user_id = ${user.id}`,
    );
    t.equal(row?.size, 32);
    for (const part of [token, token.slice(4), Buffer.from(token).toString('hex')])
      t.notOk(JSON.stringify(row).includes(part));
    t.not(await aReset(databaseUrl, user.id), token);
  });

  await t.test('a token that is not good gets one answer, and no hash is computed', async (t) => {
    const used = await signUp(target);
    const usedToken = await aReset(databaseUrl, used.user.id);
    t.equal((await redeem(target, usedToken)).statusCode, 200);
    const account = anAccount();
    const { user } = await signUp(target, account);
    const replaced = await aReset(databaseUrl, user.id);
    const expired = await aReset(databaseUrl, user.id);
    await sql(
      databaseUrl,
      `UPDATE password_resets SET expires_at = clock_timestamp() WHERE user_id = ${user.id}`,
    );
    const bad: Record<string, string> = {
      used: usedToken,
      replaced,
      expired,
      unknown: `lkr_${'A'.repeat(43)}`,
      empty: '',
      'in another case': expired.toLowerCase(),
      'with a space': `${expired} `,
      odd: "' OR ''='\u0000",
    };
    const bodies = new Set<string>();
    for (const [what, token] of Object.entries(bad)) {
      const steps = await workDone(t, async () => {
        const response = await redeem(target, token);
        refused(t, response, 401, 'invalid_reset_token');
        bodies.add(response.body.replace(/"request_id":"[^"]*"/, ''));
      });
      t.notOk(
        steps.some((step) => step.includes('hash of') || step.startsWith('hash at')),
        what,
      );
    }
    t.equal(bodies.size, 1);
    t.equal((await attempt(account.username, OLD)).statusCode, 200);
  });

  await t.test('the policy is checked after the token, and a refusal does not use it up', async (t) => {
    const account = anAccount();
    const pair = await signUp(target, account);
    const token = await aReset(databaseUrl, pair.user.id);
    refused(t, await redeem(target, 'lkr_unknown', 'password1'), 401, 'invalid_reset_token');
    refused(t, await redeem(target, 'lkr_unknown', 'short'), 401, 'invalid_reset_token');
    for (const password of ['password1', account.username, account.email, account.name])
      refused(t, await redeem(target, token, password), 400, 'password_refused', ['/password']);
    for (const password of ['short', 'x'.repeat(1025), '        ', '\udfff and more'])
      refused(t, await redeem(target, token, password), 400, 'validation_failed', ['/password']);
    t.equal((await verify(target, pair.access_token)).statusCode, 200, 'nothing has ended');
    t.equal((await redeem(target, token)).statusCode, 200);
    refused(t, await redeem(target, token), 401, 'invalid_reset_token');
  });

  await t.test('disabling voids it, and redeeming a later one enables no account', async (t) => {
    const account = anAccount();
    const { user } = await signUp(target, account);
    const before = await aReset(databaseUrl, user.id);
    await disableAccount(databaseUrl, { id: user.id });
    refused(t, await redeem(target, before), 401, 'invalid_reset_token');
    const later = await aReset(databaseUrl, user.id);
    t.equal((await redeem(target, later)).statusCode, 200);
    refused(t, await attempt(account.username, NEW), 401, 'invalid_credentials');
    await enableAccount(databaseUrl, { id: user.id });
    refused(t, await redeem(target, before), 401, 'invalid_reset_token');
    t.equal((await attempt(account.username, NEW)).statusCode, 200);
    refused(t, await attempt(account.username, OLD), 401, 'invalid_credentials');
  });

  await t.test('a login that hashes the same password again leaves it good', async (t) => {
    const account = anAccount();
    const { user } = await signUp(target, account);
    const token = await aReset(databaseUrl, user.id);
    const costlier = await buildTestApp(t, { databaseUrl, env: { ...env, SCRYPT_LOG_N: '5' } });
    await logIn(costlier, account.username);
    t.equal((await redeem(target, token)).statusCode, 200);
  });

  await t.test('deleting the account deletes it', async (t) => {
    const { user } = await signUp(target);
    const token = await aReset(databaseUrl, user.id);
    await sql(databaseUrl, `DELETE FROM users WHERE id = ${user.id}`);
    refused(t, await redeem(target, token), 401, 'invalid_reset_token');
  });

  await t.test('of ten requests with one token, one changes the password', async (t) => {
    const account = anAccount();
    const { user } = await signUp(target, account);
    const token = await aReset(databaseUrl, user.id);
    const passwords = Array.from({ length: 10 }, (_, i) => `${NEW} ${i}`);
    const answers = await Promise.all(passwords.map((password) => redeem(target, token, password)));
    const won = passwords.filter((_, i) => answers[i]?.statusCode === 200);
    t.equal(won.length, 1);
    for (const answer of answers)
      if (answer.statusCode !== 200) refused(t, answer, 401, 'invalid_reset_token');
    t.equal((await attempt(account.username, won[0] ?? '')).statusCode, 200);
  });
});

onAStore('resets are limited like logins', async (t, env) => {
  await t.test('by address, together with them', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, RATE_LIMIT_LOGIN: '3/60' } });
    const account = anAccount();
    const { user } = await signUp(target, account);
    await logIn(target, account.username);
    for (let i = 0; i < 2; i++) refused(t, await redeem(target, 'x'), 401, 'invalid_reset_token');
    const token = await aReset(target.databaseUrl, user.id);
    refused(t, await redeem(target, token), 429, 'rate_limited');
  });

  await t.test('by network, which only bad tokens count for', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, ...LIMITS, RATE_LIMIT_NETWORK: '5/900' } });
    const near = (i: number) => ({ 'x-forwarded-for': `203.0.113.${i}` });
    const { user } = await signUp(target);
    for (let i = 0; i < 7; i++) {
      const token = await aReset(target.databaseUrl, user.id);
      t.equal((await redeem(target, token, `${NEW} ${i}`, near(i))).statusCode, 200);
      refused(
        t,
        await redeem(target, await aReset(target.databaseUrl, user.id), 'short', near(i)),
        400,
        'validation_failed',
      );
    }
    for (let i = 0; i < 5; i++)
      refused(t, await redeem(target, `x${i}`, NEW, near(i)), 401, 'invalid_reset_token');
    const token = await aReset(target.databaseUrl, user.id);
    refused(t, await redeem(target, token, NEW, near(9)), 429, 'rate_limited');
    const payload = { username: 'unknown', password: 'x' };
    refused(t, await call(target, 'POST /api/auth', { payload, headers: near(8) }), 429, 'rate_limited');
    t.equal((await redeem(target, token, NEW, stranger(1))).statusCode, 200);
  });
});
