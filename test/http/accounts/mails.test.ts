import { MAIL_KINDS } from '../../../src/domain/mail-kinds.ts';
import { aManager, disableAccount } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, signUp } from '../../support/client.ts';
import { valueOf } from '../../support/exposition.ts';
import { aMailer, letPass, lookUp, requestReset, wantReset } from '../../support/mails.ts';
import { refused } from '../../support/problem.ts';
import { aReset, redeem } from '../../support/resets.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

const MINUTE = 60;

onAStore('wanted mails', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const mailer = await aMailer(target);
  const noneIsLeft = async () => {
    await letPass(databaseUrl, 2 * 3600);
  };

  await t.test('a request leads to a mail, whose token sets the password', async (t) => {
    const account = anAccount({ email: 'Ada.Lovelace@Example.com' });
    const { user } = await signUp(target, account);
    for (const username of [account.username.toUpperCase(), ' ada.lovelace@EXAMPLE.com']) {
      const response = await requestReset(target, username);
      t.strictSame(response.json(), { msg: 'if there is such an account, a mail is on its way' });
      await lookUp(target);
    }
    const [mail, ...others] = await mailer.take();
    t.strictSame(others, [], 'two requests want one mail');
    t.match(mail, {
      kind: 'password_reset',
      email: account.email,
      verified: false,
      token: /^lkr_[\w-]{43}$/,
    });
    t.strictSame(mail?.user, user);
    t.ok(Math.abs(Date.parse(mail?.expires_at ?? '') - Date.now() - 1_800_000) < 60_000);
    t.equal((await redeem(target, mail?.token ?? '')).statusCode, 200);
    t.equal((await mailer.settle(mail?.id ?? 0)).statusCode, 200);
    t.strictSame(await mailer.take(), []);
  });

  await t.test('a mailed token and one that was handed out replace each other only by use', async (t) => {
    await noneIsLeft();
    for (const used of ['mailed', 'handed out'] as const) {
      const account = anAccount();
      const { user } = await signUp(target, account);
      const before = await aReset(databaseUrl, user.id);
      await wantReset(target, account.username);
      const [mail] = await mailer.take();
      const tokens = { mailed: mail?.token ?? '', 'handed out': before };
      refused(t, await redeem(target, tokens.mailed, 'short'), 400, 'validation_failed');
      refused(t, await redeem(target, before, 'short'), 400, 'validation_failed');
      tokens['handed out'] = await aReset(databaseUrl, user.id);
      refused(t, await redeem(target, before), 401, 'invalid_reset_token');
      refused(t, await redeem(target, tokens.mailed, 'short'), 400, 'validation_failed');
      t.equal((await redeem(target, tokens[used])).statusCode, 200, used);
      for (const token of Object.values(tokens))
        refused(t, await redeem(target, token), 401, 'invalid_reset_token');
      await mailer.settle(mail?.id ?? 0);
    }
  });

  await t.test('every name gets the same answer', async (t) => {
    await noneIsLeft();
    const [disabled, gone] = [anAccount(), anAccount()];
    const { user } = await signUp(target, disabled);
    await disableAccount(databaseUrl, { id: user.id });
    const back = await aManager(databaseUrl, target, ['users.write'], 'remover');
    await back(`DELETE /api/users/${(await signUp(target, gone)).user.id}`);
    const names = [
      disabled.username,
      gone.email,
      'unknown',
      'a b',
      '@',
      'a@b@c',
      "' OR ''='\u0000",
      'x'.repeat(254),
    ];
    const bodies = new Set<string>();
    for (const name of names) {
      const response = await requestReset(target, name);
      t.equal(response.statusCode, 200, name);
      bodies.add(response.body);
    }
    t.equal(bodies.size, 1);
    await lookUp(target);
    t.strictSame(await mailer.take(), [], 'and none of them a mail');
    for (const name of ['', 'x'.repeat(255), '\udfff'])
      refused(t, await requestReset(target, name), 400, 'validation_failed', ['/username']);
  });

  await t.test('a mail that was taken is hidden, and then taken again with another token', async (t) => {
    await noneIsLeft();
    const account = anAccount();
    await signUp(target, account);
    await wantReset(target, account.username);
    const [first] = await mailer.take();
    await letPass(databaseUrl, 59);
    t.strictSame(await mailer.take(), []);
    await letPass(databaseUrl, 1);
    const [second] = await mailer.take();
    await mailer.settle(first?.id ?? 0);
    await letPass(databaseUrl, 2 * MINUTE);
    const [third] = await mailer.take();
    t.ok(third, 'a late mailer has settled nothing');
    t.equal(new Set([first, second, third].map((mail) => mail?.token)).size, 3);
    t.equal((await redeem(target, first?.token ?? '')).statusCode, 200, 'the first one may be in the mailbox');
    refused(t, await redeem(target, third?.token ?? ''), 401, 'invalid_reset_token');
    for (let i = 0; i < 2; i++) {
      const response = await mailer.settle(third?.id ?? 0);
      t.strictSame([response.statusCode, response.json()], [200, { msg: 'settled' }], 'also a second time');
    }
    await letPass(databaseUrl, 5 * MINUTE);
    t.strictSame(await mailer.take(), []);
  });

  await t.test('it is hidden for longer each time, and dropped after six tries', async (t) => {
    await noneIsLeft();
    const account = anAccount();
    await signUp(target, account);
    await wantReset(target, account.username);
    for (const minutes of [1, 2, 4, 8, 16]) {
      t.equal((await mailer.take()).length, 1, `to be hidden for ${minutes} minutes`);
      await letPass(databaseUrl, minutes * MINUTE - 1);
      t.strictSame(await mailer.take(), []);
      await letPass(databaseUrl, 1);
    }
    const [last] = await mailer.take();
    t.ok(last);
    await letPass(databaseUrl, 28 * MINUTE);
    t.strictSame(await mailer.take(), [], 'no seventh time, before its hour is over');
    await wantReset(target, account.username);
    t.equal((await mailer.take()).length, 1, 'it stands for no new request');
    t.equal((await mailer.settle(last?.id ?? 0)).statusCode, 200, 'the sixth try may still succeed');
  });

  await t.test('a mailer gets the kinds that it names, or the first two', async (t) => {
    await noneIsLeft();
    const account = anAccount();
    const { user, access_token: token } = await signUp(target, account);
    await wantReset(target, account.username);
    await call(target, 'POST /api/user/email-verification', { token });
    await sql(
      databaseUrl,
      `INSERT INTO wanted_mails (user_id, kind, event, address, address_key, wanted_at) VALUES
        ($1, 'notice', 'new_device', 'Old@Example.com', 'old@example.com', now() - interval '23 hours'),
        ($1, 'invitation', NULL, NULL, NULL, now() - interval '23 hours'),
        ($1, 'email_change', NULL, 'New@Example.com', 'new@example.com', now())`,
      [user.id],
    );
    const [notice, ...others] = await mailer.take(100, ['notice']);
    t.strictSame(others, []);
    t.match(notice, { kind: 'notice', event: 'new_device', email: 'Old@Example.com', verified: true, user });
    t.ok(Math.abs(Date.parse(notice?.at ?? '') - Date.now() + 23 * 3_600_000) < 60_000);
    t.notMatch(Object.keys(notice ?? {}), /token|expires_at/);
    const usual = await mailer.take();
    t.strictSame(usual.map(({ kind }) => kind).sort(), ['email_verification', 'password_reset']);
    const [change, invitation] = (await mailer.take(100, ['invitation', 'email_change'])).sort((a, b) =>
      a.kind < b.kind ? -1 : 1,
    );
    t.match(change, { kind: 'email_change', email: 'New@Example.com', verified: false, token: /^lkv_/ });
    t.match(invitation, { kind: 'invitation', email: account.email, token: /^lkr_/ });
    t.ok(Date.parse(invitation?.expires_at ?? '') > Date.now() + 6 * 86_400_000);
    await letPass(databaseUrl, 61 * MINUTE);
    t.strictSame(await mailer.take(100, MAIL_KINDS), [], 'each has expired, at 24 hours or at one');
    for (const kinds of [[], ['x'], [null], 'notice', ['notice', 'notice'], null])
      refused(t, await mailer.ask('POST /api/users/mails', { kinds }), 400, 'validation_failed');
  });

  await t.test('strangers use up no reset of a device that the account knows', async (t) => {
    await noneIsLeft();
    const account = anAccount();
    const { refresh_token } = await signUp(target, account);
    const stranger = { 'user-agent': 'a stranger' };
    const withToken = { ...stranger, authorization: `Bearer ${refresh_token}` };
    const askedBy = async (headers: Record<string, string>) => {
      t.equal((await requestReset(target, account.username, headers)).statusCode, 200);
      await lookUp(target);
      const mails = await mailer.take();
      for (const { id } of mails) await mailer.settle(id);
      return mails.length;
    };
    const thrice = async (headers: Record<string, string>) => [
      await askedBy(headers),
      await askedBy(headers),
      await askedBy(headers),
    ];
    t.strictSame(await thrice(stranger), [1, 1, 1]);
    t.equal(await askedBy(stranger), 0);
    t.strictSame([await askedBy({}), await askedBy(withToken), await askedBy({})], [1, 1, 1]);
    t.strictSame([await askedBy({}), await askedBy(withToken), await askedBy(stranger)], [0, 0, 0]);
    await letPass(databaseUrl, 30 * MINUTE);
    t.strictSame([await askedBy(stranger), await askedBy({})], [1, 1], 'after the life of a token');
    await requestReset(target, account.username, stranger);
    await requestReset(target, account.username);
    await lookUp(target);
    t.equal((await mailer.take()).length, 2, 'nor does a mail that a stranger wants stand for its own');
    const others = (await signUp(target)).refresh_token;
    await letPass(databaseUrl, 30 * MINUTE);
    t.strictSame(await thrice({ ...stranger, authorization: `Bearer ${others}` }), [1, 1, 1]);
    t.equal(await askedBy(stranger), 0, 'another user is a stranger');
  });

  await t.test('what is not settled after 60 minutes is dropped', async (t) => {
    await noneIsLeft();
    const account = anAccount();
    await signUp(target, account);
    await wantReset(target, account.username);
    await letPass(databaseUrl, 59 * MINUTE);
    t.equal((await mailer.take()).length, 1, 'a mailer that was away misses nothing younger');
    await letPass(databaseUrl, MINUTE);
    t.strictSame(await mailer.take(), []);
  });

  await t.test('an account gets 3 mails of a kind in an hour, and resets in the life of a token', async (t) => {
    await noneIsLeft();
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    const askForProof = () => call(target, 'POST /api/user/email-verification', { token });
    for (let i = 0; i < 3; i++) {
      await wantReset(target, account.username);
      t.equal((await askForProof()).statusCode, 200);
      const mails = await mailer.take();
      t.strictSame(mails.map(({ kind }) => kind).sort(), ['email_verification', 'password_reset']);
      for (const { id } of mails) await mailer.settle(id);
      await letPass(databaseUrl, MINUTE);
    }
    await wantReset(target, account.username);
    const limited = await askForProof();
    refused(t, limited, 429, 'rate_limited');
    const wait = Number(limited.headers['retry-after']);
    t.ok(wait > 56 * MINUTE && wait <= 57 * MINUTE, `until the first one is an hour old: ${wait}`);
    t.match(target.audit().at(-1), { event: 'limit.reached', details: { limit: 'mails' } });
    t.strictSame(await mailer.take(), []);
    await letPass(databaseUrl, 27 * MINUTE);
    await wantReset(target, account.username);
    t.match(await mailer.take(), [{ kind: 'password_reset' }]);
    refused(t, await askForProof(), 429, 'rate_limited');
    await letPass(databaseUrl, wait - 27 * MINUTE);
    t.equal((await askForProof()).statusCode, 200);
    t.match(await mailer.take(), [{ kind: 'email_verification' }]);
  });

  await t.test('the oldest mails come first, 20 at a time unless the request says otherwise', async (t) => {
    await noneIsLeft();
    const ids: number[] = [];
    for (let i = 0; i < 23; i++) {
      const account = anAccount();
      ids.push((await signUp(target, account)).user.id);
      await wantReset(target, account.username);
      await letPass(databaseUrl, 1);
    }
    const usersOf = (mails: { user: { id: number } }[]) =>
      mails.map(({ user }) => user.id).sort((a, b) => a - b);
    t.strictSame(usersOf(await mailer.take(1)), ids.slice(0, 1));
    t.strictSame(usersOf(await mailer.take()), ids.slice(1, 21));
    t.strictSame(usersOf(await mailer.take(100)), ids.slice(21));
  });

  await t.test('bad requests take nothing', async (t) => {
    await noneIsLeft();
    const account = anAccount();
    await signUp(target, account);
    await wantReset(target, account.username);
    for (const limit of [0, 101, 1.5, -1, '5', null])
      refused(t, await mailer.ask('POST /api/users/mails', { limit }), 400, 'validation_failed', ['/limit']);
    refused(t, await mailer.ask('POST /api/users/mails', { kind: 'x' }), 400, 'validation_failed', ['/kind']);
    for (const id of ['0', 'x', '1e3', '9007199254740992'])
      refused(t, await mailer.ask(`DELETE /api/users/mails/${id}`), 400, 'validation_failed', ['params/id']);
    t.equal((await mailer.ask('GET /api/users/mails')).headers.allow, 'POST');
    t.equal((await mailer.take()).length, 1);
  });
});

onAStore('a replica counts what it drops, and says which kind waits', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl, composition } = target;
  await aMailer(target);
  const { user } = await signUp(target);
  await sql(
    databaseUrl,
    `INSERT INTO wanted_mails (user_id, kind, wanted_at) VALUES
      ($1, 'password_reset', now() - interval '61 minutes'), ($1, 'invitation', now() - interval '2 hours')`,
    [user.id],
  );
  composition.start();
  const read = async (metric: string, labels: Record<string, string>) =>
    valueOf(await composition.ops.metrics(), metric, labels);
  const dropped = { outcome: 'dropped' };
  await until(async () => (await read('latchkey_mails_total', dropped)) > 0);
  t.equal(await read('latchkey_mails_total', { ...dropped, kind: 'password_reset' }), 1);
  t.equal(await read('latchkey_mails_total', dropped), 1);
  const age = await read('latchkey_wanted_mail_age_seconds', { kind: 'invitation' });
  t.ok(Math.abs(age - 7200) < 60, `${age} s`);
  t.equal(await read('latchkey_wanted_mail_age_seconds', { kind: 'password_reset' }), 0);
});
