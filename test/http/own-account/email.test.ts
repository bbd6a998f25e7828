import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, createLongLived, logIn, signUp, type Pair } from '../../support/client.ts';
import { aFactor } from '../../support/factors.ts';
import { LIMITS } from '../../support/guessing.ts';
import { MAIL_KINDS, type MailKind } from '../../../src/domain/mail-kinds.ts';
import { confirmApp, FACTOR_PASSWORD, setUpApp } from '../../support/own-factors.ts';
import { aBrowser, confirmPasskey, created, enrolmentOptions, PASSKEYS } from '../../support/passkeys.ts';
import { aMailer, changeEmail, letPass, verifyEmail, wantReset } from '../../support/mails.ts';
import { refused } from '../../support/problem.ts';
import { aMailedReset, aReset, redeem } from '../../support/resets.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const PASSWORD = 'difference engine';

onAStore('an address and its proof', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, ...PASSKEYS, EMAIL_VERIFICATION: 'true' } });
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
  const delivered = async (kinds: readonly MailKind[] = MAIL_KINDS) => {
    const mails = await mailer.take(100, kinds);
    for (const { id } of mails) await mailer.settle(id);
    return mails;
  };

  await t.test('a signup wants a mail, whose token proves the address once', async (t) => {
    const account = anAccount({ email: 'Grace@Example.com' });
    const { access_token: token, user } = await signUp(target, account);
    const inForce = { email: account.email, pending: null, deliverable: true };
    t.strictSame(await addressOf(token), { ...inForce, verified: false });
    const [mail] = await delivered();
    t.match(mail, { kind: 'email_verification', email: account.email, token: /^lkv_[\w-]{43}$/ });
    t.ok(Math.abs(Date.parse(mail?.expires_at ?? '') - Date.now() - 86_400_000) < 60_000);
    const [row] = await sql<{ text: string; size: number }>(
      databaseUrl,
      `SELECT mailed_tokens::text, length(token_hash) AS size FROM mailed_tokens WHERE user_id = ${user.id}`,
    );
    t.equal(row?.size, 32);
    t.notOk(JSON.stringify(row).includes(Buffer.from(mail?.token ?? '').toString('hex')));
    const response = await verifyEmail(target, mail?.token ?? '');
    t.strictSame([response.statusCode, response.json()], [200, { msg: 'address verified' }]);
    t.strictSame(await addressOf(token), { ...inForce, verified: true });
    const byService = await back(`GET /api/users/${user.id}/email`);
    t.strictSame(byService.json(), { ...inForce, verified: true });
    t.match((await back(`GET /api/users/${user.id}`)).json(), { email_verified: true });
    t.equal((await verifyEmail(target, mail?.token ?? '')).statusCode, 200, 'a repeat');
    const again = await call(target, 'POST /api/user/email-verification', { token });
    t.strictSame(again.json(), { msg: 'the address is verified already' });
    t.strictSame(await delivered(), []);
  });

  const wish = (token: string, email: string) =>
    call(target, 'PATCH /api/user', { token, payload: { email, current_password: PASSWORD } });
  const canLogIn = async (username: string) =>
    (await call(target, 'POST /api/auth', { payload: { username, password: PASSWORD } })).statusCode === 200;

  /** An account with a verified address. */
  async function aVerified(): Promise<Pair & { email: string }> {
    const account = anAccount();
    const pair = await signUp(target, account);
    const [mail] = await delivered();
    t.equal((await verifyEmail(target, mail?.token ?? '')).statusCode, 200);
    return { ...pair, email: account.email };
  }

  /** @returns the token of the mail to the address. */
  async function asked(token: string, email: string): Promise<string> {
    t.equal((await wish(token, email)).statusCode, 200);
    const mails = await delivered(['email_change']);
    t.match(mails, [{ kind: 'email_change', email, verified: false, token: /^lkv_[\w-]{43}$/ }]);
    return mails[0]?.token ?? '';
  }

  await t.test('another address is pending until its owner proves it in a session', async (t) => {
    const { access_token: token, user, email } = await aVerified();
    const next = `Next.${email}`;
    const reset = await aReset(databaseUrl, user.id);
    const proof = await asked(token, next);
    const before = { email, verified: true, deliverable: true };
    t.strictSame(await addressOf(token), { ...before, pending: next });
    t.strictSame((await back(`GET /api/users/${user.id}/email`)).json(), { ...before, pending: next });
    t.same([await canLogIn(email), await canLogIn(next)], [true, false], 'only the one in force logs in');
    for (const name of [next, email]) await wantReset(target, name);
    t.match(await delivered(), [{ kind: 'password_reset', email }], 'and gets resets');
    refused(t, await verifyEmail(target, proof), 401, 'invalid_verification_token');

    const response = await changeEmail(target, token, proof);
    t.strictSame([response.statusCode, response.json()], [200, { msg: 'address changed' }]);
    t.strictSame(await addressOf(token), { email: next, verified: true, pending: null, deliverable: true });
    t.same([await canLogIn(email), await canLogIn(next)], [false, true]);
    refused(t, await redeem(target, reset), 401, 'invalid_reset_token');
    t.equal((await changeEmail(target, token, proof)).statusCode, 200, 'a repeat');
    await back(`PATCH /api/users/${user.id}`, { email: `x${next}` });
    refused(t, await changeEmail(target, token, proof), 401, 'invalid_verification_token');
    await delivered();
  });

  await t.test(
    'another spelling is pending too, and a name that comes with it is changed at once',
    async (t) => {
      const { access_token: token, email, user } = await aVerified();
      const reset = await aReset(databaseUrl, user.id);
      const spelling = email.toUpperCase();
      const payload = { email: spelling, name: 'Countess', current_password: PASSWORD };
      const changed = await call(target, 'PATCH /api/user', { token, payload });
      t.match(changed.json(), { name: 'Countess' });
      t.match(await addressOf(token), { email, pending: spelling, verified: true });
      const [mail] = await delivered();
      t.equal((await changeEmail(target, token, mail?.token ?? '')).statusCode, 200);
      t.match(await addressOf(token), { email: spelling, pending: null, verified: true });
      refused(t, await redeem(target, reset), 401, 'invalid_reset_token');
      await call(target, 'PATCH /api/user', { token, payload: { name: 'Ada K.' } });
      t.strictSame(await delivered(), [], 'another name wants no mail');
    },
  );

  await t.test('what withdraws a pending address voids its token and its mail', async (t) => {
    const acts: Record<string, (pair: Pair & { email: string }) => Promise<{ statusCode: number }>> = {
      'another one': ({ access_token: token, email }) => wish(token, `other.${email}`),
      'the one in force': ({ access_token: token, email }) => wish(token, email),
      'a service that names the one in force': ({ user, email }) =>
        back(`PATCH /api/users/${user.id}`, { email }),
      'a new password': ({ access_token: token }) => {
        const payload = { current_password: PASSWORD, new_password: 'an analytical engine' };
        return call(target, 'POST /api/user/password', { token, payload });
      },
      disabling: async ({ user }) => {
        await back(`PATCH /api/users/${user.id}`, { disabled: true });
        return back(`PATCH /api/users/${user.id}`, { disabled: false });
      },
    };
    for (const [name, act] of Object.entries(acts)) {
      const pair = await aVerified();
      const proof = await asked(pair.access_token, `next.${pair.email}`);
      // A second mail waits.
      await wish(pair.access_token, `next.${pair.email}`);
      t.equal((await act(pair)).statusCode, 200, name);
      const token =
        name === 'disabling' ? (await logIn(target, pair.user.username)).access_token : pair.access_token;
      refused(t, await changeEmail(target, token, proof), 401, 'invalid_verification_token');
      const pending = name === 'another one' ? `other.${pair.email}` : null;
      t.match(await addressOf(token), { email: pair.email, verified: true, pending }, name);
      t.strictSame(
        (await delivered()).map(({ email }) => email),
        pending === null ? [] : [pending],
        name,
      );
    }
  });

  await t.test(
    'the token alone is not enough, and a session that may not change the address neither',
    async (t) => {
      const pair = await aVerified();
      const { access_token: token, user, email } = pair;
      const proof = await asked(token, `next.${email}`);
      const { longlived_token: llt } = await createLongLived(target, token);
      const stranger = await aVerified();
      const bad = 'invalid_verification_token';
      refused(t, await changeEmail(target, stranger.access_token, proof), 401, bad);
      refused(t, await changeEmail(target, llt, proof), 403, 'token_not_allowed');
      const payload = { verification_token: proof };
      refused(t, await call(target, 'POST /api/user/email', { payload }), 401, 'token_missing');
      refused(t, await back('POST /api/user/email', payload), 401, 'token_missing');
      for (const other of [
        await aMailedReset(databaseUrl, user.id),
        '',
        "' OR ''='\u0000",
        `lkv_${'A'.repeat(43)}`,
      ])
        refused(t, await changeEmail(target, token, other), 401, bad);
      const odd = await call(target, 'POST /api/user/email', { token, payload: { verification_token: 5 } });
      refused(t, odd, 400, 'validation_failed', ['/verification_token']);
      await aFactor(target, pair);
      refused(t, await changeEmail(target, token, proof), 403, 'login_too_old');
      t.match(await addressOf(token), { email, pending: `next.${email}` });
    },
  );

  await t.test(
    'a pending address reserves nothing, and a proved one that is left stays its own',
    async (t) => {
      const [one, two] = [await aVerified(), await aVerified()];
      const shared = `shared.${one.email}`;
      const [ofOne, ofTwo] = [await asked(one.access_token, shared), await asked(two.access_token, shared)];
      t.equal((await changeEmail(target, one.access_token, ofOne)).statusCode, 200);
      refused(t, await changeEmail(target, two.access_token, ofTwo), 400, 'email_taken', ['/email']);
      refused(t, await wish(two.access_token, shared), 400, 'email_taken', ['/email']);
      // The first one's first address was verified: nobody else gets it, in any spelling and on any way.
      const former = one.email.toUpperCase();
      refused(t, await wish(two.access_token, former), 400, 'email_taken', ['/email']);
      const signup = { ...anAccount(), email: former };
      refused(t, await call(target, 'POST /api/auth/signup', { payload: signup }), 400, 'email_taken', [
        '/email',
      ]);
      refused(t, await back(`PATCH /api/users/${two.user.id}`, { email: former }), 400, 'email_taken', [
        '/email',
      ]);
      refused(
        t,
        await back('POST /api/users', { ...anAccount(), password: undefined, email: former }),
        400,
        'email_taken',
        ['/email'],
      );
      const wayBack = await asked(one.access_token, one.email);
      t.equal((await changeEmail(target, one.access_token, wayBack)).statusCode, 200, 'it goes back itself');
      refused(t, await wish(two.access_token, shared), 400, 'email_taken', ['/email']);
      await sql(databaseUrl, "UPDATE reserved_names SET until = now() - interval '1 second'");
      t.equal((await wish(two.access_token, shared)).statusCode, 200, 'until DELETED_NAME_GRACE is over');
      // An address that nobody has proved is free at once.
      const squatter = anAccount();
      const { user } = await signUp(target, squatter);
      await back(`PATCH /api/users/${user.id}`, { email: `x${squatter.email}` });
      const owner = { ...anAccount(), email: squatter.email };
      t.equal((await call(target, 'POST /api/auth/signup', { payload: owner })).statusCode, 200);
      await delivered();
    },
  );

  await t.test(
    'an address gets three mails in an hour from all accounts, and so does an account',
    async (t) => {
      const pairs = [await aVerified(), await aVerified(), await aVerified(), await aVerified()];
      const mailbox = `mailbox.${pairs[0]?.email ?? ''}`;
      const statuses: number[] = [];
      for (const { access_token: token } of pairs) statuses.push((await wish(token, mailbox)).statusCode);
      t.strictSame(statuses, [200, 200, 200, 429]);
      const [, , , last] = pairs;
      if (!last) throw new Error('no account');
      t.match(await addressOf(last.access_token), { pending: null }, 'nothing is kept of the refused wish');
      const refusal = await wish(last.access_token, mailbox.toUpperCase());
      refused(t, refusal, 429, 'rate_limited');
      t.ok(Number(refusal.headers['retry-after']) > 3000);
      t.equal((await delivered()).length, 3);
      for (let i = 0; i < 3; i++) await asked(last.access_token, `${i}.${last.email}`);
      refused(t, await wish(last.access_token, `4.${last.email}`), 429, 'rate_limited');
      t.match(await addressOf(last.access_token), { pending: `2.${last.email}` });
      await letPass(databaseUrl, 3600);
      t.equal((await wish(last.access_token, mailbox)).statusCode, 200);
      await delivered();
    },
  );

  await t.test(
    'a reset that was mailed proves the address, and one that was handed out does not',
    async (t) => {
      for (const [issue, verified] of [
        [aMailedReset, true],
        [aReset, false],
      ] as const) {
        const account = anAccount();
        const { user } = await signUp(target, account);
        t.equal((await redeem(target, await issue(databaseUrl, user.id))).statusCode, 200);
        t.match((await back(`GET /api/users/${user.id}`)).json(), { email_verified: verified });
        const [row] = await sql<{ version: number }>(
          databaseUrl,
          `SELECT version FROM users WHERE id = ${user.id}`,
        );
        t.equal(row?.version, verified ? 1 : 0, 'services hear of it');
      }
      await delivered();
    },
  );

  for (const [kind, line, begin] of [
    [
      'an app',
      'POST /api/user/factors/totp',
      async (token: string) => {
        const app = await setUpApp(target, token);
        return () => confirmApp(target, token, app.code());
      },
    ],
    [
      'a passkey',
      'POST /api/user/factors/passkey',
      async (token: string) => {
        const passkey = created(aBrowser(), await enrolmentOptions(target, token));
        return () => confirmPasskey(target, token, passkey);
      },
    ],
  ] as const)
    await t.test(`${kind} takes a verified address, to be set up and to be confirmed`, async (t) => {
      const { access_token: token, user } = await signUp(target);
      const setUp = await call(target, line, { token, payload: FACTOR_PASSWORD });
      refused(t, setUp, 403, 'email_not_verified');
      const { email } = (await addressOf(token)) as { email: string };
      await back(`PATCH /api/users/${user.id}`, { email, email_verified: true });
      const confirm = await begin(token);
      await back(`PATCH /api/users/${user.id}`, { email_verified: false });
      refused(t, await confirm(), 403, 'email_not_verified');
      await back(`PATCH /api/users/${user.id}`, { email, email_verified: true });
      t.equal((await confirm()).statusCode, 200, 'what was begun is still good');
      await back(`PATCH /api/users/${user.id}`, { email_verified: false });
      const login = { username: user.username, password: PASSWORD };
      refused(t, await call(target, 'POST /api/auth', { payload: login }), 401, 'second_factor_required');
      await delivered();
    });

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
    t.match(await addressOf(token), { email: `y${email}`, verified: true });
  });

  await t.test('a token expires, and a newer one stands beside it', async (t) => {
    const { access_token: other } = await signUp(target);
    const [early] = await delivered();
    await call(target, 'POST /api/user/email-verification', { token: other });
    const [late] = await delivered();
    t.equal((await verifyEmail(target, early?.token ?? '')).statusCode, 200);
    refused(t, await verifyEmail(target, late?.token ?? ''), 401, 'invalid_verification_token');
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
    t.strictSame(await mailer.take(100, MAIL_KINDS), [], 'the address changed at once');
    t.equal((await call(target, 'POST /api/user/email-verification', { token })).statusCode, 200);
    t.match(await mailer.take(), [{ email: payload.email }]);
    for (let i = 0; i < 2; i++) refused(t, await verifyEmail(target, 'x'), 401, 'invalid_verification_token');
    refused(t, await verifyEmail(target, 'x'), 429, 'rate_limited');
    refused(t, await call(target, 'POST /api/user/email-verification', { token }), 429, 'rate_limited');
    const reset = { payload: { username: account.username } };
    refused(t, await call(target, 'POST /api/auth/password-reset-request', reset), 429, 'rate_limited');
  },
);
