import { test } from 'tap';
import { MAIL_KINDS, type MailKind } from '../../src/domain/mail-kinds.ts';
import { aManager } from '../support/accounts.ts';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, logIn, signUp, verify } from '../support/client.ts';
import { anApp } from '../support/factors.ts';
import { aMailer, letPass, verifyEmail, wantReset, type Mail } from '../support/mails.ts';
import { PASSKEYS } from '../support/passkeys.ts';
import { refused } from '../support/problem.ts';
import { redeem } from '../support/resets.ts';
import { sql } from '../support/sql.ts';
import '../support/watch-leaks.ts';

const PASSWORD = 'difference engine';
const NEW_PASSWORD = 'an analytical engine';

test('nobody keeps an address that is not theirs', async (t) => {
  const factors = { FACTOR_KEYS: Buffer.alloc(32, 1).toString('base64url'), ...PASSKEYS };
  const env = { EMAIL_VERIFICATION: 'true', ...factors };
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const mailer = await aMailer(target);
  const office = await aManager(databaseUrl, target, ['users.write', 'users.reset'], 'office');

  /** In any spelling. */
  const mailsTo = async (email: string): Promise<Mail[]> => {
    const mails = await mailer.take(100, MAIL_KINDS);
    for (const { id } of mails) await mailer.settle(id);
    return mails.filter((mail) => mail.email.toLowerCase() === email.toLowerCase());
  };
  const tokenTo = async (email: string, kind: MailKind) =>
    (await mailsTo(email)).find((mail) => mail.kind === kind)?.token ?? '';
  const change = (token: string, email: string) =>
    call(target, 'PATCH /api/user', { token, payload: { email, current_password: PASSWORD } });
  const proveNew = (token: string, proof: string) =>
    call(target, 'POST /api/user/email', { token, payload: { verification_token: proof } });
  const setUp = (token: string, kind = 'totp') =>
    call(target, `POST /api/user/factors/${kind}`, { token, payload: { current_password: PASSWORD } });
  const addressOf = async (token: string) =>
    (await call(target, 'GET /api/user/email', { token })).json<object>();
  /** Somebody with a mailbox of their own, which is proved. */
  const aUser = async () => {
    const account = anAccount();
    const { access_token: token, user } = await signUp(target, account);
    const proof = await tokenTo(account.email, 'email_verification');
    t.equal((await verifyEmail(target, proof)).statusCode, 200);
    return { account, token, user };
  };

  await t.test('who signs up with it loses the account to a reset, which no factor withstands', async (t) => {
    const { email } = anAccount();
    const { access_token: token } = await signUp(target, anAccount({ email }));
    for (const kind of ['totp', 'passkey']) refused(t, await setUp(token, kind), 403, 'email_not_verified');
    await wantReset(target, email);
    const reset = await tokenTo(email, 'password_reset');
    t.equal((await redeem(target, reset, NEW_PASSWORD)).statusCode, 200);
    t.equal((await verify(target, token)).statusCode, 401);
    await t.resolves(logIn(target, email, NEW_PASSWORD), 'its owner is in');
  });

  await t.test('nor one that was set up at an address of the squatter’s own', async (t) => {
    const { token, user } = await aUser();
    const begun = await setUp(token);
    t.equal(begun.statusCode, 200);
    // By a mistake of somebody in the office.
    const { email } = anAccount();
    t.equal((await office(`PATCH /api/users/${user.id}`, { email })).statusCode, 200);
    const code = anApp(begun.json<{ secret: string }>().secret)();
    const confirmed = await call(target, 'POST /api/user/factors/totp/confirm', { token, payload: { code } });
    refused(t, confirmed, 403, 'email_not_verified');
    await wantReset(target, email);
    const reset = await tokenTo(email, 'password_reset');
    t.equal((await redeem(target, reset, NEW_PASSWORD)).statusCode, 200);
    await t.resolves(logIn(target, email, NEW_PASSWORD));
  });

  await t.test('who asks to change to it reserves nothing', async (t) => {
    const squatter = await aUser();
    const owner = anAccount();
    t.equal((await change(squatter.token, owner.email)).statusCode, 200);
    const stray = await tokenTo(owner.email, 'email_change');
    t.not(stray, '', 'its owner has got the mail');
    t.match(await addressOf(squatter.token), { email: squatter.account.email, pending: owner.email });
    const { access_token: token } = await signUp(target, owner);
    const proof = await tokenTo(owner.email, 'email_verification');
    refused(t, await proveNew(token, stray), 401, 'invalid_verification_token');
    t.equal((await verifyEmail(target, proof)).statusCode, 200);
    refused(t, await proveNew(squatter.token, stray), 400, 'email_taken');
    t.match(await addressOf(squatter.token), { email: squatter.account.email, verified: true });
    t.match(await addressOf(token), { email: owner.email, verified: true });
  });

  await t.test('ten accounts cannot flood it with mails', async (t) => {
    await letPass(databaseUrl, 2 * 3600);
    const { email } = anAccount();
    let mails = 0;
    for (let i = 0; i < 10; i++) {
      const { access_token: token } = await signUp(target);
      await change(token, i % 2 === 0 ? email : email.toUpperCase());
      mails += (await mailsTo(email)).length;
    }
    t.equal(mails, 3);
  });

  await t.test('nor those that are deleted in between', async (t) => {
    await letPass(databaseUrl, 2 * 3600);
    const { email } = anAccount();
    let mails = 0;
    for (let i = 0; i < 5; i++) {
      const { access_token: token, user } = await signUp(target);
      await change(token, email);
      mails += (await mailsTo(email)).length;
      t.equal((await office(`DELETE /api/users/${user.id}`)).statusCode, 200);
    }
    t.equal(mails, 3);
    const kept = await sql(databaseUrl, 'SELECT 1 FROM wanted_mails WHERE address_key = $1 OR address = $1', [
      email,
    ]);
    t.strictSame(kept, [], 'although the address is erased');
    const { access_token: token } = await signUp(target);
    t.equal((await change(token, anAccount().email)).statusCode, 200, 'others are free');
  });

  await t.test('an address that was proved stays its account’s after a thief has changed it', async (t) => {
    await letPass(databaseUrl, 2 * 3600);
    const { account, token } = await aUser();
    const thief = anAccount();
    t.equal((await change(token, thief.email)).statusCode, 200);
    t.equal((await proveNew(token, await tokenTo(thief.email, 'email_change'))).statusCode, 200);
    refused(
      t,
      await call(target, 'POST /api/auth/signup', { payload: anAccount({ email: account.email }) }),
      400,
      'email_taken',
    );
    const other = await aUser();
    refused(t, await change(other.token, account.email), 400, 'email_taken');
    t.equal((await change(token, account.email)).statusCode, 200);
    t.equal((await proveNew(token, await tokenTo(account.email, 'email_change'))).statusCode, 200);
    t.match(await addressOf(token), { email: account.email, verified: true });
  });

  await t.test('one that was never proved is free as soon as the squatter has left it', async (t) => {
    const { email } = anAccount();
    const { access_token: token } = await signUp(target, anAccount({ email }));
    const next = anAccount();
    t.equal((await change(token, next.email)).statusCode, 200);
    t.equal((await proveNew(token, await tokenTo(next.email, 'email_change'))).statusCode, 200);
    await t.resolves(signUp(target, anAccount({ email })));
  });
});
