import { MAIL_KINDS } from '../../../src/domain/mail-kinds.ts';
import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, logIn, type Pair } from '../../support/client.ts';
import { aMailer, letPass, wantReset } from '../../support/mails.ts';
import { refused } from '../../support/problem.ts';
import { redeem } from '../../support/resets.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const PASSWORD = 'an analytical engine';
const TTL = 604_800;

onAStore('invitations', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const ask = await aManager(databaseUrl, target);
  const mailer = await aMailer(target);
  /** Names and an address, for the first password to come. */
  const aNewcomer = (more: object = {}) => ({ ...anAccount(), password: undefined, ...more });
  const create = async (account: object) => {
    const response = await ask('POST /api/users', account);
    if (response.statusCode !== 200) throw new Error(response.body);
    return response.json<Pair['user']>();
  };
  const invite = (id: number) => ask(`POST /api/users/${id}/invitation`);
  /** Takes and settles what waits, which is of one account. */
  const mailsOf = async (id: number) => {
    const mails = await mailer.take(20, MAIL_KINDS);
    for (const mail of mails) {
      if (mail.user.id !== id) throw new Error('a mail of another account');
      await mailer.settle(mail.id);
    }
    return mails;
  };

  await t.test('a new account is invited in its commit, and the token sets its first password', async (t) => {
    const account = aNewcomer({ invite: true });
    const { id } = await create(account);
    const [mail, ...others] = await mailsOf(id);
    t.strictSame(others, []);
    t.match(mail, { kind: 'invitation', email: account.email, token: /^lkr_[\w-]{43}$/ });
    t.ok(Math.abs(Date.parse(mail?.expires_at ?? '') - Date.now() - TTL * 1000) < 60_000);
    await letPass(databaseUrl, TTL - 60);
    t.equal((await redeem(target, mail?.token ?? '', PASSWORD)).statusCode, 200);
    refused(t, await redeem(target, mail?.token ?? '', `${PASSWORD} 2`), 401, 'invalid_reset_token');
    t.equal((await logIn(target, account.email, PASSWORD)).user.id, id);
    t.notMatch(target.log() + JSON.stringify(target.audit()), mail?.token ?? 'no token');
  });

  await t.test('a mailer that names no kinds gets no invitation', async (t) => {
    const { id } = await create(aNewcomer({ invite: true }));
    t.strictSame(await mailer.take(), []);
    t.equal((await mailsOf(id)).length, 1);
  });

  await t.test('its token is good for INVITATION_TTL', async (t) => {
    const { id } = await create(aNewcomer({ invite: true }));
    const [mail] = await mailsOf(id);
    await letPass(databaseUrl, TTL + 60);
    refused(t, await redeem(target, mail?.token ?? '', PASSWORD), 401, 'invalid_reset_token');
  });

  await t.test('an account that nobody invites wants no mail', async () => {
    for (const more of [{}, { invite: false }]) {
      const { id } = await create(aNewcomer(more));
      t.strictSame(await mailsOf(id), []);
    }
  });

  await t.test('an invitation with a password, or of a disabled account, is refused', async (t) => {
    for (const wrong of [{ password: PASSWORD }, { disabled: true }]) {
      const account = aNewcomer({ invite: true, ...wrong });
      refused(t, await ask('POST /api/users', account), 400, 'validation_failed', ['/invite']);
      t.match((await ask(`GET /api/users?username=${account.username}`)).json(), { users: [] });
    }
    for (const wrong of ['true', 1, null])
      refused(t, await ask('POST /api/users', aNewcomer({ invite: wrong })), 400, 'validation_failed', [
        '/invite',
      ]);
  });

  await t.test('a lost mail is asked for again, until the account is in use', async (t) => {
    const account = aNewcomer({ locale: 'de' });
    const { id } = await create(account);
    for (let i = 0; i < 2; i++) t.strictSame((await invite(id)).json(), { msg: 'a mail is on its way' });
    const mails = await mailsOf(id);
    t.equal(mails.length, 1, 'one that waits stands for both');
    t.equal(mails[0]?.locale, 'de');
    const invited = { event: 'user.invited_by_client', subject: { user_id: id } };
    t.match(
      target.audit().findLast(({ event }) => event === invited.event),
      invited,
    );

    t.equal((await redeem(target, mails[0]?.token ?? '', PASSWORD)).statusCode, 200);
    const { statusCode, body } = await invite(id);
    t.match([statusCode, body], [200, /in use already/], 'after a changed password');
    t.strictSame(await mailsOf(id), []);
  });

  await t.test('a session on record ends invitations, also one that has ended', async (t) => {
    const account = anAccount();
    const { id } = await create(account);
    t.match((await invite(id)).json(), { msg: 'a mail is on its way' }, 'a password alone does not');
    await mailsOf(id);
    await logIn(target, account.username);
    await ask(`DELETE /api/users/${id}/tokens`);
    t.match((await invite(id)).json(), { msg: /in use already/ });
    t.strictSame(await mailsOf(id), []);
  });

  await t.test('a disabled account, and one that mails do not reach, is not invited', async (t) => {
    const [disabled, unreachable] = [await create(aNewcomer({ disabled: true })), await create(aNewcomer())];
    await sql(databaseUrl, `UPDATE users SET undeliverable_at = now() WHERE id = ${unreachable.id}`);
    for (const [{ id }, reason] of [
      [disabled, /disabled/],
      [unreachable, /cannot be reached/],
    ] as const) {
      const response = await invite(id);
      t.match([response.statusCode, response.body], [200, reason]);
      t.strictSame(await mailsOf(id), []);
    }
  });

  await t.test('an invitation and a mailed reset void each other', async (t) => {
    for (const used of ['invitation', 'password_reset'] as const) {
      const account = aNewcomer({ invite: true });
      const { id } = await create(account);
      await wantReset(target, account.username);
      const tokens = new Map((await mailsOf(id)).map(({ kind, token }) => [kind as string, token]));
      t.strictSame([...tokens.keys()].sort(), ['invitation', 'password_reset']);
      t.equal((await redeem(target, tokens.get(used) ?? '', PASSWORD)).statusCode, 200, used);
      for (const token of tokens.values())
        refused(t, await redeem(target, token, `${PASSWORD} 2`), 401, 'invalid_reset_token');
    }
  });

  await t.test('an account gets 3 invitations in an hour', async (t) => {
    const { id } = await create(aNewcomer());
    for (let i = 0; i < 3; i++) {
      t.equal((await invite(id)).statusCode, 200);
      t.equal((await mailsOf(id)).length, 1);
    }
    const limited = await invite(id);
    refused(t, limited, 429, 'rate_limited');
    const wait = Number(limited.headers['retry-after']);
    t.ok(wait > 3500 && wait <= 3600, `${wait} s`);
    t.match(target.audit().at(-1), { event: 'limit.reached', details: { limit: 'mails' } });
    await letPass(databaseUrl, wait);
    t.equal((await invite(id)).statusCode, 200);
    await mailsOf(id);
  });

  await t.test('unknown and deleted accounts are 404, and a body is refused', async (t) => {
    const { id } = await create(aNewcomer());
    refused(t, await ask(`POST /api/users/${id}/invitation`, { invite: true }), 400, 'validation_failed');
    await ask(`DELETE /api/users/${id}`);
    for (const gone of [id, 999_999]) refused(t, await invite(gone), 404, 'user_unknown');
    for (const wrong of ['0', 'x', '9007199254740993'])
      refused(t, await ask(`POST /api/users/${wrong}/invitation`), 400, 'validation_failed');
  });
});
