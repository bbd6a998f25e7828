import { NOTICE_EVENTS, type NoticeEvent } from '../../../src/domain/mail-kinds.ts';
import { aManager } from '../../support/accounts.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, logIn, pairOf, signUp, type Pair } from '../../support/client.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../../support/factors.ts';
import { aMailer, letPass, wantReset } from '../../support/mails.ts';
import { addApp } from '../../support/own-factors.ts';
import { redeem } from '../../support/resets.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const PASSWORD = 'difference engine';
const ELSEWHERE = { 'user-agent': 'another device' };
const HOUR = 3600;

interface Scene {
  target: TestApp;
  account: ReturnType<typeof anAccount>;
  pair: Pair;
  byService: Awaited<ReturnType<typeof aManager>>;
}

const changeAddress = ({ target, account, pair }: Scene) =>
  call(target, 'PATCH /api/user', {
    token: pair.access_token,
    payload: { email: `new.${account.email}`, current_password: PASSWORD },
  });

async function withFactor({ target, account, pair }: Scene) {
  const factor = await aFactor(target, pair);
  return { factor, token: (await logInWithFactor(target, account.username, factor)).access_token };
}

/** Each way in which an event comes about. */
const CAUSES: [how: string, event: NoticeEvent | null, act: (scene: Scene) => Promise<unknown>][] = [
  [
    'a new password',
    'password_changed',
    ({ target, pair }) =>
      call(target, 'POST /api/user/password', {
        token: pair.access_token,
        payload: { current_password: PASSWORD, new_password: 'an analytical engine' },
      }),
  ],
  [
    'a redeemed reset',
    'password_changed',
    async ({ target, account, pair, byService }) => {
      const made = await byService(`POST /api/users/${pair.user.id}/password-reset`);
      return redeem(target, made.json<{ reset_token: string }>().reset_token, `${account.username} engine`);
    },
  ],
  ['a new address', 'email_changed', changeAddress],
  [
    'a new address by a service',
    'email_changed',
    ({ account, pair, byService }) =>
      byService(`PATCH /api/users/${pair.user.id}`, { email: `other.${account.email}` }),
  ],
  ['a confirmed app', 'factor_added', ({ target, pair }) => addApp(target, pair.access_token)],
  [
    'a removed app',
    'factor_removed',
    async (scene) => {
      const { factor, token } = await withFactor(scene);
      const payload = { current_password: PASSWORD };
      return call(scene.target, `POST /api/user/factors/${factor.id}/removal`, { token, payload });
    },
  ],
  [
    'factors removed by a service',
    'factor_removed',
    async (scene) => {
      await aFactor(scene.target, scene.pair);
      return scene.byService(`DELETE /api/users/${scene.pair.user.id}/factors`);
    },
  ],
  [
    'a recovery code',
    'recovery_code_used',
    async ({ target, account, pair }) => {
      const { recoveryCodes } = await aFactor(target, pair);
      const login_token = await firstStep(target, account.username);
      return secondStep(target, { login_token, recovery_code: recoveryCodes[0] ?? '' });
    },
  ],
  [
    'a login elsewhere',
    'new_device',
    ({ target, account: { username, password } }) =>
      call(target, 'POST /api/auth', { payload: { username, password }, headers: ELSEWHERE }),
  ],
  ['a login at a known device', null, ({ target, account }) => logIn(target, account.username)],
  [
    'a login with the token of the device',
    null,
    ({ target, account: { username, password }, pair }) =>
      call(target, 'POST /api/auth', {
        payload: { username, password },
        headers: ELSEWHERE,
        token: pair.refresh_token,
      }),
  ],
  [
    'the first device that an account knows',
    null,
    async ({ target, account: { username, password }, pair }) => {
      await sql(target.databaseUrl, 'DELETE FROM known_devices WHERE user_id = $1', [pair.user.id]);
      return call(target, 'POST /api/auth', { payload: { username, password }, headers: ELSEWHERE });
    },
  ],
  [
    'no factor to remove',
    null,
    ({ pair, byService }) => byService(`DELETE /api/users/${pair.user.id}/factors`),
  ],
  [
    'a wrong password for a new one',
    null,
    ({ target, pair }) =>
      call(target, 'POST /api/user/password', {
        token: pair.access_token,
        payload: { current_password: 'wrong', new_password: 'an analytical engine' },
      }),
  ],
];

async function aScene(target: TestApp, byService: Scene['byService'], isVerified = true): Promise<Scene> {
  const account = anAccount();
  const pair = await signUp(target, account);
  if (isVerified)
    await byService(`PATCH /api/users/${pair.user.id}`, { email: account.email, email_verified: true });
  return { target, account, pair, byService };
}

const RIGHTS = ['users.write', 'users.reset', 'users.factors', 'users.read'] as const;

onAStore('notices', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, NOTICES: 'true' } });
  const { databaseUrl } = target;
  const mailer = await aMailer(target);
  const byService = await aManager(databaseUrl, target, RIGHTS);
  const delivered = async () => {
    const mails = await mailer.take(100, ['notice']);
    for (const { id } of mails) await mailer.settle(id);
    return mails;
  };

  for (const [how, event, act] of CAUSES)
    await t.test(`${how} wants ${event ?? 'none'}`, async (t) => {
      const scene = await aScene(target, byService);
      await act(scene);
      const { email } = scene.account;
      const notices = await delivered();
      t.strictSame(
        notices.map((mail) => [mail.event, mail.email, mail.verified, mail.user.id]),
        event === null ? [] : [[event, email, true, scene.pair.user.id]],
      );
      t.ok(notices.every(({ at }) => Math.abs(Date.parse(at ?? '') - Date.now()) < 60_000));
    });

  await t.test('an address that nobody has proved gets none, whatever happens', async (t) => {
    for (const [, , act] of CAUSES) await act(await aScene(target, byService, false));
    t.strictSame(await delivered(), []);
  });

  await t.test('a new address does not redirect the notices that wait', async (t) => {
    const scene = await aScene(target, byService);
    const { target: app, account } = scene;
    const payload = { username: account.username, password: PASSWORD };
    await call(app, 'POST /api/auth', { payload, headers: ELSEWHERE });
    await changeAddress(scene);
    const notices = await delivered();
    t.strictSame(notices.map(({ event, email }) => [event, email]).sort(), [
      ['email_changed', account.email],
      ['new_device', account.email],
    ]);
  });

  await t.test('an account gets three of an event an hour, and a reset beside them', async (t) => {
    const { account, pair } = await aScene(target, byService);
    const payload = { username: account.username, password: PASSWORD };
    for (let i = 0; i < 5; i++)
      await call(target, 'POST /api/auth', { payload, headers: { 'user-agent': `device ${i}` } });
    t.strictSame(
      (await delivered()).map(({ event }) => event),
      ['new_device', 'new_device', 'new_device'],
    );
    await byService(`PATCH /api/users/${pair.user.id}`, { email: `x${account.email}`, email_verified: true });
    t.match(await delivered(), [{ event: 'email_changed' }], 'another event has its own');
    await wantReset(target, account.username);
    t.match(await mailer.take(), [{ kind: 'password_reset' }]);
    await letPass(databaseUrl, HOUR);
    await call(target, 'POST /api/auth', { payload, headers: { 'user-agent': 'device 9' } });
    t.match(await delivered(), [{ event: 'new_device' }]);
  });

  await t.test('disabling and deleting an account withdraw them', async (t) => {
    for (const line of ['PATCH', 'DELETE'] as const) {
      const { account, pair } = await aScene(target, byService);
      const payload = { username: account.username, password: PASSWORD };
      pairOf(await call(target, 'POST /api/auth', { payload, headers: ELSEWHERE }));
      await byService(
        `${line} /api/users/${pair.user.id}`,
        line === 'PATCH' ? { disabled: true } : undefined,
      );
      t.strictSame(await delivered(), []);
    }
  });
});

onAStore(
  'a pending address is told of to the one in force, and by its proof to the one before',
  async (t, env) => {
    const target = await buildTestApp(t, { env: { ...env, NOTICES: 'true', EMAIL_VERIFICATION: 'true' } });
    const mailer = await aMailer(target);
    const byService = await aManager(target.databaseUrl, target, RIGHTS);
    const scene = await aScene(target, byService);
    t.equal((await changeAddress(scene)).statusCode, 200);
    const mails = await mailer.take(100, ['notice', 'email_change']);
    t.strictSame(mails.map((mail) => [mail.kind, mail.event, mail.email]).sort(), [
      ['email_change', undefined, `new.${scene.account.email}`],
      ['notice', 'email_change_requested', scene.account.email],
    ]);
    const token = mails.find(({ kind }) => kind === 'email_change')?.token;
    const payload = { verification_token: token };
    const proof = await call(target, 'POST /api/user/email', { token: scene.pair.access_token, payload });
    t.equal(proof.statusCode, 200);
    t.match(await mailer.take(100, ['notice']), [{ event: 'email_changed', email: scene.account.email }]);
    const told = new Set([...CAUSES.map(([, event]) => event), 'email_change_requested']);
    t.strictSame(
      NOTICE_EVENTS.filter((event) => !told.has(event)),
      [],
      'every event is caused here',
    );
  },
);

onAStore('without NOTICES nothing is wanted', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const byService = await aManager(target.databaseUrl, target, RIGHTS);
  for (const [, , act] of CAUSES) await act(await aScene(target, byService));
  t.strictSame(await sql(target.databaseUrl, "SELECT 1 FROM wanted_mails WHERE kind = 'notice'"), []);
});
