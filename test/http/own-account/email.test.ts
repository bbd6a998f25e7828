import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, signUp } from '../../support/client.ts';
import { LIMITS } from '../../support/guessing.ts';
import { aMailer, letPass, verifyEmail } from '../../support/mails.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const PASSWORD = 'difference engine';

onAStore('an address and its proof', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, EMAIL_VERIFICATION: 'true' } });
  const { databaseUrl } = target;
  const mailer = await aMailer(target);
  const back = await aManager(databaseUrl, target, [
    'users.email',
    'users.read',
    'users.write',
    'users.reset',
  ]);
  const addressOf = async (token: string) =>
    (await call(target, 'GET /api/user/email', { token })).json<object>();
  /** The mails that wait, each settled. */
  const delivered = async () => {
    const mails = await mailer.take(100);
    for (const { id } of mails) await mailer.settle(id);
    return mails;
  };

  await t.test('a signup wants a mail, whose token proves the address once', async (t) => {
    const account = anAccount({ email: 'Grace@Example.com' });
    const { access_token: token, user } = await signUp(target, account);
    t.strictSame(await addressOf(token), { email: account.email, verified: false });
    const [mail] = await delivered();
    t.match(mail, { kind: 'email_verification', email: account.email, token: /^lkv_[\w-]{43}$/ });
    t.ok(Math.abs(Date.parse(mail?.expires_at ?? '') - Date.now() - 86_400_000) < 60_000);
    const [row] = await sql<{ text: string; size: number }>(
      databaseUrl,
      `SELECT email_verifications::text, length(token_hash) AS size FROM email_verifications WHERE user_id = ${user.id}`,
    );
    t.equal(row?.size, 32);
    t.notOk(JSON.stringify(row).includes(Buffer.from(mail?.token ?? '').toString('hex')));
    const response = await verifyEmail(target, mail?.token ?? '');
    t.strictSame([response.statusCode, response.json()], [200, { msg: 'address verified' }]);
    t.strictSame(await addressOf(token), { email: account.email, verified: true });
    const byService = await back(`GET /api/users/${user.id}/email`);
    t.strictSame(byService.json(), { email: account.email, verified: true });
    t.match((await back(`GET /api/users/${user.id}`)).json(), { email_verified: true });
    refused(t, await verifyEmail(target, mail?.token ?? ''), 401, 'invalid_verification_token');
    const again = await call(target, 'POST /api/user/email-verification', { token });
    t.strictSame(again.json(), { msg: 'the address is verified already' });
    t.strictSame(await delivered(), []);
  });

  await t.test(
    'a changed address is unproved, and wants a mail; the token for the old one is void',
    async (t) => {
      const { access_token: token, user } = await signUp(target);
      const [old] = await delivered();
      const email = `${user.username}@new.example.com`;
      const changes = { email, current_password: PASSWORD };
      t.equal((await call(target, 'PATCH /api/user', { token, payload: changes })).statusCode, 200);
      refused(t, await verifyEmail(target, old?.token ?? ''), 401, 'invalid_verification_token');
      const [mail, ...others] = await delivered();
      t.match(mail, { email, verified: false });
      t.strictSame(others, []);
      t.equal((await verifyEmail(target, mail?.token ?? '')).statusCode, 200);
      const spelling = { email: email.toUpperCase(), current_password: PASSWORD };
      await call(target, 'PATCH /api/user', { token, payload: spelling });
      t.strictSame(
        await addressOf(token),
        { email: spelling.email, verified: false },
        'another spelling too',
      );
      t.match(await delivered(), [{ email: spelling.email }]);
      await call(target, 'PATCH /api/user', { token, payload: { name: 'Ada K.' } });
      t.strictSame(await delivered(), [], 'another name wants none');
    },
  );

  await t.test('a service proves an address itself, and changes it', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const { email } = (await addressOf(token)) as { email: string };
    const [mail] = await mailer.take();
    await back(`PATCH /api/users/${user.id}`, { email, email_verified: true });
    await letPass(databaseUrl, 60);
    t.strictSame(await delivered(), [], 'a proved address wants no mail');
    refused(t, await verifyEmail(target, mail?.token ?? ''), 401, 'invalid_verification_token');
    await back(`PATCH /api/users/${user.id}`, { email: `x${email}` });
    t.match(await delivered(), [{ email: `x${email}` }]);
    await back(`PATCH /api/users/${user.id}`, { email: `y${email}`, email_verified: true });
    t.strictSame(await delivered(), []);
    t.strictSame(await addressOf(token), { email: `y${email}`, verified: true });
  });

  await t.test('a token expires, and a newer one replaces it', async (t) => {
    const { access_token: token } = await signUp(target);
    const [first] = await delivered();
    await call(target, 'POST /api/user/email-verification', { token });
    const [second] = await delivered();
    await letPass(databaseUrl, 86_400);
    const unknown = `lkv_${'A'.repeat(43)}`;
    for (const bad of [first?.token, second?.token, unknown, '', "' OR ''='\u0000", 'lkr_x'])
      refused(t, await verifyEmail(target, bad ?? ''), 401, 'invalid_verification_token');
    t.match(await addressOf(token), { verified: false });
    const payload = { verification_token: 5 };
    const odd = await call(target, 'POST /api/auth/email-verification', { payload });
    refused(t, odd, 400, 'validation_failed', ['/verification_token']);
    const full = await call(target, 'POST /api/user/email-verification', { token, payload: { email: 'x' } });
    refused(t, full, 400, 'validation_failed', ['']);
  });
});

onAStore(
  'without EMAIL_VERIFICATION, only a request wants a mail; all are limited as logins are',
  async (t, env) => {
    const limits = { ...LIMITS, RATE_LIMIT_LOGIN: '4/600', RATE_LIMIT_NETWORK: '2/600' };
    const target = await buildTestApp(t, { env: { ...env, ...limits } });
    const mailer = await aMailer(target);
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    const payload = { email: `x${account.email}`, current_password: PASSWORD };
    t.equal((await call(target, 'PATCH /api/user', { token, payload })).statusCode, 200);
    t.strictSame(await mailer.take(), []);
    t.equal((await call(target, 'POST /api/user/email-verification', { token })).statusCode, 200);
    t.match(await mailer.take(), [{ email: payload.email }]);
    for (let i = 0; i < 2; i++) refused(t, await verifyEmail(target, 'x'), 401, 'invalid_verification_token');
    refused(t, await verifyEmail(target, 'x'), 429, 'rate_limited');
    refused(t, await call(target, 'POST /api/user/email-verification', { token }), 429, 'rate_limited');
    const reset = { payload: { username: account.username } };
    refused(t, await call(target, 'POST /api/auth/password-reset-request', reset), 429, 'rate_limited');
  },
);
