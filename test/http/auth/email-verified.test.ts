import { test } from 'tap';
import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { audienceClients, exchanged } from '../../support/audiences.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLimited,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../../support/client.ts';
import { claimOfAddress, saidOfAddress } from '../../support/email-verified.ts';
import { verifyEmail } from '../../support/mails.ts';
import { aMailedReset, aReset, aVerification, redeem } from '../../support/resets.ts';
import { sql } from '../../support/sql.ts';
import { onEachStore } from '../../support/stores.ts';

onEachStore('whether the address is verified', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const manager = await aManager(databaseUrl, target);
  const { orders } = await audienceClients(databaseUrl);
  const account = anAccount();
  const pair = await signUp(target, account);
  const { id } = pair.user;
  const mark = async (email_verified: boolean) => {
    const change = { email: account.email, email_verified };
    t.equal((await manager(`PATCH /api/users/${id}`, change)).statusCode, 200);
  };
  const said = (token: string) => saidOfAddress(target, manager.client, token);
  const { longlived_token: llt } = await createLongLived(target, pair.access_token);
  const { token: limited } = await createLimited(target, pair.access_token, ['orders:read']);

  await t.test('introspection says what holds now, whatever the token says', async (t) => {
    for (const isMarked of [false, true, false, true]) {
      await mark(isMarked);
      for (const token of [pair.access_token, llt, limited]) {
        t.equal(await said(token), isMarked);
        t.equal(claimOfAddress(token), false);
      }
    }
    const { access_token: token } = await logIn(target, account.username);
    t.equal(claimOfAddress(token), true);
    await mark(false);
    t.equal(await said(token), false);
  });

  await t.test('access tokens hold it from the next refresh on, and no other token does', async (t) => {
    const first = await logIn(target, account.username);
    t.equal(claimOfAddress(first.access_token), false);
    await mark(true);
    const next = pairOf(await refresh(target, first.refresh_token));
    t.equal(claimOfAddress(next.access_token), true);
    const { longlived_token: other } = await createLongLived(target, next.access_token);
    for (const token of [next.refresh_token, other]) t.equal(claimOfAddress(token), false);
    await mark(false);
    const last = pairOf(await refresh(target, next.refresh_token));
    t.equal(claimOfAddress(last.access_token), false);
  });

  await t.test('a retried refresh gets equal claims but for what holds now', async (t) => {
    const { refresh_token: used } = await logIn(target, account.username);
    const first = pairOf(await refresh(target, used));
    await mark(true);
    const again = pairOf(await refresh(target, used));
    t.strictSame(claimsOf(again.access_token), { ...claimsOf(first.access_token), email_verified: true });
    t.strictSame(claimsOf(again.refresh_token), claimsOf(first.refresh_token));
    t.strictSame(
      Object.keys(again.user).sort(),
      ['created_at', 'id', 'name', 'roles', 'username'],
      'the user of an answer says nothing of the address',
    );
  });

  await t.test('an exchanged token says what holds at the exchange', async (t) => {
    const subject = await logIn(target, account.username);
    const token = await exchanged(target, subject.access_token);
    t.equal(claimOfAddress(token), true);
    t.equal(await saidOfAddress(target, orders, token), true);
    await mark(false);
    t.equal(await saidOfAddress(target, orders, token), false);
    t.equal(claimOfAddress(await exchanged(target, subject.access_token)), false);
  });

  await t.test('verify has no header for it', async (t) => {
    await mark(true);
    const { headers } = await verify(target, pair.access_token);
    t.notMatch(Object.keys(headers).join(), /verified/);
  });

  await t.test('a new address is not verified', async (t) => {
    const { access_token: token } = await logIn(target, account.username);
    t.equal(await said(token), true);
    const payload = { email: anAccount().email, current_password: account.password };
    t.equal((await call(target, 'PATCH /api/user', { token, payload })).statusCode, 200);
    t.equal(await said(token), false);
    t.equal(await said(llt), false);
  });

  await t.test('the token of a mail proves it, and one that an operator made does not', async (t) => {
    const { access_token: token, user } = await signUp(target);
    t.equal((await verifyEmail(target, await aVerification(databaseUrl, user.id))).statusCode, 200);
    t.equal(await said(token), true);
    for (const [mint, proves] of [
      [aReset, false],
      [aMailedReset, true],
    ] as const) {
      const another = anAccount();
      const { user: owner } = await signUp(target, another);
      const password = 'an analytical engine';
      t.equal((await redeem(target, await mint(databaseUrl, owner.id), password)).statusCode, 200);
      const after = await logIn(target, another.username, password);
      t.equal(claimOfAddress(after.access_token), proves);
      t.equal(await said(after.access_token), proves);
    }
  });
});

test('each change that services see has a new version, whoever makes it', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl } = target;
  const manager = await aManager(databaseUrl, target);
  const account = anAccount();
  const { user } = await signUp(target, account);
  const row = async () => {
    const [found] = await sql<{ version: number; pending: boolean; changed: boolean }>(
      databaseUrl,
      `SELECT version, pending, changed_at > now() - interval '1 minute' AS changed FROM users WHERE id = $1`,
      [user.id],
    );
    return found;
  };
  let version = 0;
  const isRaised = async (what: string, change: () => Promise<unknown>, by = 1) => {
    await sql(databaseUrl, 'UPDATE users SET pending = false, changed_at = NULL WHERE id = $1', [user.id]);
    await change();
    version += by;
    const isChanged = by > 0;
    t.strictSame(await row(), { version, pending: isChanged, changed: isChanged || null }, what);
  };
  const patch = (change: object) => async () => {
    t.equal((await manager(`PATCH /api/users/${user.id}`, change)).statusCode, 200);
  };
  // The changes of 1.0.0, which knows neither the version of an address nor the other columns.
  const previous = (change: string) => () => sql(databaseUrl, `UPDATE users SET ${change} WHERE id = ${user.id}`);
  const { email } = account;

  await isRaised('verified', patch({ email, email_verified: true }));
  await isRaised('nothing', patch({ email, email_verified: true }), 0);
  await isRaised('external id', patch({ external_id: 'x-1' }));
  await isRaised('address', patch({ email: anAccount().email }));
  await isRaised('verified by 1.0.0', previous('email_verified_at = now()'));
  await isRaised('verified again by 1.0.0', previous("email_verified_at = now() + interval '1 s'"), 0);
  await isRaised('not verified by 1.0.0', previous('email_verified_at = NULL'));
  await isRaised('address by 1.0.0', previous("email = 'other@example.com'"));
  await isRaised('roles by 1.0.0', previous("roles = '{a}', email_verified_at = now(), version = version + 1, changed_at = now(), pending = true"));
  await isRaised('the same by 1.0.0', previous('email = email, email_verified_at = email_verified_at'), 0);
  await isRaised('locale', previous("locale = 'de'"));
  await isRaised('undeliverable', previous('undeliverable_at = now()'));
  await isRaised('password', previous("password_hash = '\\x00'"), 0);
  await isRaised('a pending address', previous("pending_email = 'p@example.com', pending_key = 'p@example.com'"), 0);
});
