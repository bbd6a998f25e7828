import { test } from 'tap';
import { aManager } from '../support/accounts.ts';
import type { TestApp } from '../support/app.ts';
import { aClient, begun } from '../support/begun.ts';
import { anAccount, call, signUp, verify } from '../support/client.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../support/factors.ts';
import { confirmApp, FACTOR_PASSWORD, setUpApp } from '../support/own-factors.ts';
import {
  aBrowser,
  addPasskey,
  asserted,
  confirmPasskey,
  created,
  enrolmentOptions,
  loginOptions,
  logInWithPasskey,
  PASSKEYS,
  sendPasskey,
} from '../support/passkeys.ts';
import { refused } from '../support/problem.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { sql } from '../support/sql.ts';
import { twoReplicas } from '../support/two-replicas.ts';

/** Changes of second factors against each other and against logins: each pair meets at the lock of the user's row. */
interface Scene {
  target: TestApp;
  byService: Awaited<ReturnType<typeof aManager>>;
  userId: number;
  username: string;
  /** The session that changes the factors. */
  token: string;
  /** A code of the app that it has set up. */
  code: string;
  /** What a browser has answered: to the enrolment of an account without a factor, else to a login. */
  passkey: object;
  /** Of an account that has a factor already. A passkey has no code. */
  factor: { id: number; code: string; loginToken: string } | null;
}

type Act = (scene: Scene) => ReturnType<typeof call>;

const confirm: Act = ({ target, token, code }) => confirmApp(target, token, code);
const removal: Act = ({ target, token, factor }) =>
  call(target, `POST /api/user/factors/${factor?.id}/removal`, { token, payload: FACTOR_PASSWORD });

const ACTS = {
  confirm,
  'the same confirmation': confirm,
  'confirm a passkey': ({ target, token, passkey }) => confirmPasskey(target, token, passkey),
  'another set-up': ({ target, token }) =>
    call(target, 'POST /api/user/factors/totp', { token, payload: FACTOR_PASSWORD }),
  'a login': ({ target, username }) =>
    call(target, 'POST /api/auth', { payload: { username, password: 'difference engine' } }),
  'a login with it': ({ target, passkey }) => sendPasskey(target, passkey),
  'second step': ({ target, factor }) =>
    secondStep(target, { login_token: factor?.loginToken ?? '', code: factor?.code ?? '' }),
  removal,
  'the same removal': removal,
  'a removal by a service': ({ byService, userId }) => byService(`DELETE /api/users/${userId}/factors`),
} satisfies Record<string, Act>;

const [GRANTED, NO_CODE, TOO_OLD] = ['200', '401 invalid_second_factor', '403 login_too_old'];
const [TWO_STEPS, NO_PASSKEY] = ['401 second_factor_required', '401 invalid_passkey'];

/** What the account has when the two begin. */
type Account = 'new' | 'enrolled' | 'a passkey begun' | 'a passkey';

/** Of each pair: what both answer if the one is first, if the other is, and how many factors are left then. */
const PAIRS: [
  account: Account,
  one: keyof typeof ACTS,
  other: keyof typeof ACTS,
  first: [string, string, number],
  later: [string, string, number],
][] = [
  ['new', 'confirm', 'the same confirmation', [GRANTED, TOO_OLD, 1], [TOO_OLD, GRANTED, 1]],
  ['new', 'confirm', 'another set-up', [GRANTED, TOO_OLD, 1], [NO_CODE, GRANTED, 0]],
  // A session that the password alone has opened is an old one, or there is none.
  ['new', 'confirm', 'a login', [GRANTED, TWO_STEPS, 1], [GRANTED, GRANTED, 1]],
  ['a passkey begun', 'confirm a passkey', 'a login', [GRANTED, TWO_STEPS, 1], [GRANTED, GRANTED, 1]],
  ['new', 'confirm', 'a removal by a service', [GRANTED, GRANTED, 0], ['401 invalid_token', GRANTED, 0]],
  ['enrolled', 'second step', 'removal', [GRANTED, GRANTED, 0], [NO_CODE, GRANTED, 0]],
  ['enrolled', 'second step', 'a removal by a service', [GRANTED, GRANTED, 0], [NO_CODE, GRANTED, 0]],
  ['a passkey', 'a login with it', 'removal', [GRANTED, GRANTED, 0], [NO_PASSKEY, GRANTED, 0]],
  // The confirmed app replaces the one whose code the login has.
  ['enrolled', 'second step', 'confirm', [GRANTED, GRANTED, 1], [NO_CODE, GRANTED, 1]],
  ['enrolled', 'removal', 'confirm', [GRANTED, NO_CODE, 0], ['404 factor_unknown', GRANTED, 1]],
  [
    'enrolled',
    'removal',
    'the same removal',
    [GRANTED, '404 factor_unknown', 0],
    ['404 factor_unknown', GRANTED, 0],
  ],
];

test('second factors', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await twoReplicas(t, { REDIS_URL: url, REDIS_PREFIX: prefix, ...PASSKEYS });
  const byService = await aManager(target.databaseUrl, target);
  const locks = await aClient(t, target.databaseUrl);
  const watch = await aClient(t, target.databaseUrl);

  async function aScene(has: Account): Promise<Scene> {
    const account = anAccount();
    const { username } = account;
    const pair = await signUp(target, account);
    const common = { target, byService, userId: pair.user.id, username, code: '', passkey: {}, factor: null };
    const { access_token: opened } = pair;
    if (has === 'new') return { ...common, token: opened, code: (await setUpApp(target, opened)).code() };
    if (has === 'a passkey begun') {
      const passkey = created(aBrowser(), await enrolmentOptions(target, opened));
      return { ...common, token: opened, passkey };
    }
    if (has === 'a passkey') {
      const { id, browser } = await addPasskey(target, opened);
      const { access_token: token } = await logInWithPasskey(target, browser);
      const passkey = asserted(browser, await loginOptions(target));
      return { ...common, token, passkey, factor: { id, code: '', loginToken: '' } };
    }
    const factor = await aFactor(target, pair);
    const { access_token: token } = await logInWithFactor(target, username, factor);
    const app = await setUpApp(target, token);
    const loginToken = await firstStep(target, username);
    return {
      ...common,
      token,
      code: app.code(),
      factor: { id: factor.id, code: factor.code(1), loginToken },
    };
  }

  for (const [account, one, other, first, later] of PAIRS) {
    for (const isOneFirst of [true, false]) {
      await t.test(isOneFirst ? `${one}, then ${other}` : `${other}, then ${one}`, async (t) => {
        const scene = await aScene(account);
        const { userId } = scene;
        const [ofOne, ofOther] = [begun(() => ACTS[one](scene)), begun(() => ACTS[other](scene))];
        const [begins, follows] = isOneFirst ? [ofOne, ofOther] : [ofOther, ofOne];
        await locks.query('BEGIN');
        await locks.query(`SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`);
        await begins.begin(watch);
        await follows.begin(watch, 2);
        await locks.query('COMMIT');
        const answers = [await ofOne.result(), await ofOther.result()];
        const [ofFirst, ofSecond, left] = isOneFirst ? first : later;
        t.strictSame(
          answers.map(({ statusCode, json }) => {
            const { code } = json<{ code?: string }>();
            return code === undefined ? String(statusCode) : `${statusCode} ${code}`;
          }),
          [ofFirst, ofSecond],
        );

        const [row] = await sql<Record<'factors' | 'codes' | 'devices', number> & { asked: boolean }>(
          target.databaseUrl,
          `SELECT factor_since IS NOT NULL AS asked,
            (SELECT count(*)::int FROM factors WHERE user_id = users.id AND confirmed_at IS NOT NULL) AS factors,
            (SELECT count(*)::int FROM recovery_codes WHERE user_id = users.id) AS codes
           FROM users WHERE id = ${userId}`,
        );
        t.match(row, { asked: left > 0, factors: left, codes: left * 10 }, 'all of it, or nothing');
        const tokens = answers.flatMap(({ json }) => json<{ access_token?: string }>().access_token ?? []);
        const isEnded = [one, other].includes('a removal by a service');
        for (const token of tokens) t.equal((await verify(target, token)).statusCode, isEnded ? 401 : 200);
      });
    }
  }

  await t.test('a purge of set-ups, then confirm', async (t) => {
    const scene = await aScene('new');
    const confirmed = begun(() => confirm(scene));
    await locks.query('BEGIN');
    await locks.query(`DELETE FROM factors WHERE user_id = ${scene.userId}`);
    await confirmed.begin(watch);
    await locks.query('COMMIT');
    refused(t, await confirmed.result(), 401, 'invalid_second_factor');
  });
});
