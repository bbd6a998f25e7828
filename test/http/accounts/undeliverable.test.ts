import type { Test } from 'tap';
import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, signUp } from '../../support/client.ts';
import { valueOf } from '../../support/exposition.ts';
import { aMailer, letPass, verifyEmail, wantReset } from '../../support/mails.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const PASSWORD = 'difference engine';
const ALL = ['password_reset', 'email_verification', 'email_change', 'notice'] as const;

onAStore('addresses that cannot be reached', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, NOTICES: 'true', EMAIL_VERIFICATION: 'true' } });
  const { databaseUrl } = target;
  const mailer = await aMailer(target);
  const byService = await aManager(databaseUrl, target, [
    'users.read',
    'users.write',
    'users.reset',
    'users.email',
  ]);

  /** An account with its proof settled. */
  async function anOwner(account = anAccount()) {
    const pair = await signUp(target, account);
    for (const { id } of await mailer.take(100, ALL)) await mailer.settle(id);
    return {
      account,
      token: pair.access_token,
      id: pair.user.id,
      /** What the owner and services see. */
      seen: async () => {
        const own = await call(target, 'GET /api/user/email', { token: pair.access_token });
        const account = (await byService(`GET /api/users/${pair.user.id}`)).json<{
          email_deliverable: boolean;
          email_verified: boolean;
        }>();
        const { deliverable, pending } = own.json<{ deliverable: boolean; pending: string | null }>();
        return { deliverable, pending, services: account.email_deliverable };
      },
      ask: () => call(target, 'POST /api/user/email-verification', { token: pair.access_token }),
    };
  }

  const report = async (t: Test, email: string) => {
    const answer = await mailer.undeliverable(email);
    t.strictSame([answer.statusCode, answer.json()], [200, { msg: 'noted' }], 'the same for every address');
  };
  const kinds = async () => {
    const mails = await mailer.take(100, ALL);
    for (const { id } of mails) await mailer.settle(id);
    return mails.map(({ kind }) => kind).sort();
  };

  await t.test('an address in force gets only the proofs that its owner asks for', async (t) => {
    const { account, id, seen, ask } = await anOwner(anAccount({ email: `Ada.${Date.now()}@Example.com` }));
    t.strictSame(await seen(), { deliverable: true, pending: null, services: true });
    await wantReset(target, account.username);
    await report(t, ` ${account.email.toUpperCase()} `);
    t.strictSame(await seen(), { deliverable: false, pending: null, services: false });
    t.match(target.audit().at(-1), {
      event: 'email.undeliverable',
      subject: { user_id: id },
      details: { address: 'in_force' },
    });
    t.notMatch(JSON.stringify(target.audit()), account.email);
    t.strictSame(await kinds(), [], 'what waited is settled');
    await letPass(databaseUrl, 3600);
    await wantReset(target, account.username);
    await byService(`PATCH /api/users/${id}`, { name: 'Ada K.' });
    t.strictSame(await kinds(), [], 'and nothing new is wanted');
    const before = target.audit().length;
    await report(t, account.email);
    t.equal(target.audit().length, before, 'a repeat is no news');
    t.equal((await ask()).statusCode, 200);
    const [mail, ...others] = await mailer.take(100, ALL);
    t.match(mail, { kind: 'email_verification', email: account.email });
    t.strictSame(others, []);
    t.equal((await verifyEmail(target, mail?.token ?? '')).statusCode, 200);
    t.strictSame(await seen(), { deliverable: true, pending: null, services: true }, 'until it is proved');
    await wantReset(target, account.username);
    t.strictSame(await kinds(), ['password_reset']);
  });

  await t.test('a verified address is proved anew, marked again or changed', async (t) => {
    const { account, id, seen, ask } = await anOwner();
    const marked = { email: account.email, email_verified: true };
    await byService(`PATCH /api/users/${id}`, marked);
    await report(t, account.email);
    t.equal((await seen()).deliverable, false);
    t.strictSame((await ask()).json(), { msg: 'a mail is on its way' }, 'verified, and yet a mail');
    const [mail] = await mailer.take();
    t.equal((await verifyEmail(target, mail?.token ?? '')).statusCode, 200);
    t.equal((await seen()).deliverable, true);
    t.strictSame((await ask()).json(), { msg: 'the address is verified already' });

    await report(t, account.email);
    t.equal((await seen()).services, false);
    await byService(`PATCH /api/users/${id}`, marked);
    t.strictSame(await seen(), { deliverable: true, pending: null, services: true });

    await report(t, account.email);
    await byService(`PATCH /api/users/${id}`, { email: `new.${account.email}` });
    t.strictSame(await seen(), { deliverable: true, pending: null, services: true });
  });

  await t.test('a pending address is withdrawn from every account, and no other', async (t) => {
    const [one, other, third] = [await anOwner(), await anOwner(), await anOwner()];
    const mistyped = `mistyped.${one.account.email}`;
    const change = ({ token }: { token: string }, email: string) =>
      call(target, 'PATCH /api/user', { token, payload: { email, current_password: PASSWORD } });
    t.equal((await change(one, mistyped)).statusCode, 200);
    t.equal((await change(other, mistyped.toUpperCase())).statusCode, 200);
    t.equal((await change(third, `x${mistyped}`)).statusCode, 200);
    const mails = await mailer.take(100, ['email_change']);
    t.equal(mails.length, 3);
    await report(t, mistyped);
    for (const each of [one, other])
      t.strictSame(await each.seen(), { deliverable: true, pending: null, services: true });
    t.match(target.audit().slice(-2), [
      { event: 'email.undeliverable', details: { address: 'pending' } },
      { event: 'email.undeliverable', details: { address: 'pending' } },
    ]);
    t.equal((await third.seen()).pending, `x${mistyped}`);
    const proofOf = (email: string) => mails.find((mail) => mail.email === email)?.token;
    const payload = { verification_token: proofOf(mistyped) };
    const late = await call(target, 'POST /api/user/email', { token: one.token, payload });
    refused(t, late, 401, 'invalid_verification_token');
  });

  await t.test(
    'notices to an address that an account has left are settled, and it keeps its new one',
    async (t) => {
      const { account, id, seen } = await anOwner();
      await byService(`PATCH /api/users/${id}`, { email: account.email, email_verified: true });
      await byService(`PATCH /api/users/${id}`, { email: `new.${account.email}`, email_verified: true });
      await report(t, account.email);
      t.strictSame(await kinds(), []);
      t.strictSame(await seen(), { deliverable: true, pending: null, services: true });
    },
  );

  await t.test('a notice to an address whose key a replica of 1.0.0 has not written', async (t) => {
    const { token, id } = await anOwner();
    const email = `jö${Date.now()}@example.com`;
    await sql(databaseUrl, 'UPDATE users SET email = $1, email_verified_at = now() WHERE id = $2', [
      email,
      id,
    ]);
    const passwords = { current_password: PASSWORD, new_password: 'an analytical engine' };
    t.equal((await call(target, 'POST /api/user/password', { token, payload: passwords })).statusCode, 200);
    await report(t, email);
    t.strictSame(await kinds(), []);
  });

  await t.test('services hear of it, and the mails are counted', async (t) => {
    const counted = async (outcome: string) =>
      valueOf(await target.composition.ops.metrics(), 'latchkey_mails_total', {
        kind: 'password_reset',
        outcome,
      });
    const { account, id } = await anOwner();
    const before = await Promise.all(['taken', 'settled', 'undeliverable'].map(counted));
    await wantReset(target, account.username);
    const [mail] = await mailer.take();
    for (let i = 0; i < 2; i++) await mailer.settle(mail?.id ?? 0);
    await wantReset(target, account.username);
    await mailer.take();
    await report(t, account.email);
    const after = await Promise.all(['taken', 'settled', 'undeliverable'].map(counted));
    t.strictSame(
      after.map((count, i) => count - (before[i] ?? 0)),
      [2, 1, 1],
    );
    const changed = (await byService(`GET /api/users/${id}`)).json<{ email_deliverable: boolean }>();
    t.equal(changed.email_deliverable, false);
  });

  await t.test('bad requests and unknown addresses', async (t) => {
    for (const email of ['nobody@example.com', 'no address', '@', '@1', "' OR ''='\u0000", 'x'.repeat(254)])
      await report(t, email);
    for (const email of ['', 'x'.repeat(255), '\udfff', 5, null])
      refused(
        t,
        await mailer.ask('POST /api/users/mails/undeliverable', { email }),
        400,
        'validation_failed',
        ['/email'],
      );
    const without = await aManager(databaseUrl, target, ['users.write', 'users.reset'], 'no mailer');
    const answer = await without('POST /api/users/mails/undeliverable', { email: 'a@example.com' });
    refused(t, answer, 403, 'right_missing');
  });
});
