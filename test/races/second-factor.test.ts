import { test } from 'tap';
import { aManager, disableAccount, enableAccount, type Manager } from '../support/accounts.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { aClient, begun, waitingForLocks } from '../support/begun.ts';
import { anAccount, call, pairOf, signUp, verifyInScope, type Pair } from '../support/client.ts';
import { aFactor, firstStep, secondStep, type TestFactor } from '../support/factors.ts';
import { confirmApp, setUpApp } from '../support/own-factors.ts';
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
  type Browser,
} from '../support/passkeys.ts';
import { deleteKeys, quietRedisClient, redisMissing, testRedis } from '../support/redis.ts';
import { aReset, redeem } from '../support/resets.ts';
import { sql } from '../support/sql.ts';
import { twoReplicas } from '../support/two-replicas.ts';
import { until } from '../support/until.ts';

/** What a login may meet between its steps, and within the second one: each pair at the lock of the user's row. */

interface Scene {
  target: TestApp;
  username: string;
  pair: Pair;
  /** A session that was opened with the factor. */
  changer: Pair;
  factor: TestFactor;
  browser: Browser;
  login_token: string;
  reset: string;
  manager: Manager;
}

interface Answer {
  status: number;
  body: string;
}

const asked = async (answer: ReturnType<typeof call>): Promise<Answer> => {
  const { statusCode: status, body } = await answer;
  return { status, body };
};
const done = async (work: Promise<unknown>): Promise<Answer> => {
  await work;
  return { status: 200, body: '' };
};

const CHANGE = 'a change of the password';

/** What voids a first step, and ends every session but one that makes the change itself. */
const VOIDS: Record<string, (scene: Scene) => Promise<Answer>> = {
  [CHANGE]: ({ target, changer }) =>
    asked(
      call(target, 'POST /api/user/password', {
        token: changer.access_token,
        payload: { current_password: 'difference engine', new_password: 'an analytical engine' },
      }),
    ),
  'a reset of the password': ({ target, reset }) => asked(redeem(target, reset)),
  'a disable': ({ target, username }) => done(disableAccount(target.databaseUrl, { username })),
  'a disable that is undone': ({ target, username }) =>
    done(
      disableAccount(target.databaseUrl, { username }).then(() =>
        enableAccount(target.databaseUrl, { username }),
      ),
    ),
  'a deletion': ({ manager, pair }) => asked(manager(`DELETE /api/users/${pair.user.id}`)),
  'the removal of all factors': ({ manager, pair }) =>
    asked(manager(`DELETE /api/users/${pair.user.id}/factors`)),
};

async function aScene(target: TestApp, manager: Manager): Promise<Scene> {
  const account = anAccount();
  const pair = await signUp(target, account);
  const factor = await aFactor(target, pair);
  const { username } = account;
  const login_token = await firstStep(target, username);
  const reset = await aReset(target.databaseUrl, pair.user.id);
  const changer = pairOf(
    await secondStep(target, { login_token, recovery_code: factor.recoveryCodes[9] ?? '' }),
  );
  const { browser } = await addPasskey(target, changer.access_token);
  return { target, username, pair, changer, factor, browser, login_token, reset, manager };
}

/** How an owner logs in: what is sent once everything before it is done. */
const MEANS: Record<string, (scene: Scene) => Promise<() => ReturnType<typeof call>>> = {
  'second step': ({ target, login_token, factor }) =>
    Promise.resolve(() => secondStep(target, { login_token, code: factor.code() })),
  passkey: async ({ target, browser }) => {
    const answer = asserted(browser, await loginOptions(target));
    return () => sendPasskey(target, answer);
  },
};

async function liveSessions({ target, pair }: Pick<Scene, 'target' | 'pair'>): Promise<number> {
  const live = 'SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NULL';
  return (await sql(target.databaseUrl, live, [pair.user.id])).length;
}

const MANAGER = ['users.read', 'users.write', 'users.factors'] as const;

test('one code opens one session, on whichever replica', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  // Thirty wait for one lock.
  const env = { REDIS_URL: url, REDIS_PREFIX: prefix, DATABASE_TIMEOUT: '60000', ...PASSKEYS };
  const target = await twoReplicas(t, env);
  const manager = await aManager(target.databaseUrl, target, MANAGER);
  const locks = await aClient(t, target.databaseUrl);
  const watch = await aClient(t, target.databaseUrl);

  const atOnce = async (scene: Scene, count: number, send: () => ReturnType<typeof call>) => {
    await locks.query('BEGIN');
    await locks.query(`SELECT id FROM users WHERE id = ${scene.pair.user.id} FOR NO KEY UPDATE`);
    const attempts = Array.from({ length: count }, () => asked(send()));
    // One of each replica. The others wait in its lane.
    await until(async () => (await waitingForLocks(watch)) >= 2);
    await locks.query('COMMIT');
    const answers = await Promise.all(attempts);
    t.equal(answers.filter(({ status }) => status === 200).length, 1);
    const refusals = answers.filter(
      ({ status, body }) => status === 401 && /invalid_second_factor|invalid_passkey/.test(body),
    );
    t.equal(refusals.length, count - 1);
    t.equal(await liveSessions(scene), 3, 'with those of the scene');
  };

  await t.test('a code of the app, twice', async () => {
    const scene = await aScene(target, manager);
    const [login_token, code] = [scene.login_token, scene.factor.code()];
    await atOnce(scene, 2, () => secondStep(target, { login_token, code }));
  });
  await t.test('a recovery code, 30 times', async () => {
    const scene = await aScene(target, manager);
    const [login_token, recovery_code = ''] = [scene.login_token, scene.factor.recoveryCodes[3]];
    await atOnce(scene, 30, () => secondStep(target, { login_token, recovery_code }));
  });
  await t.test('an answer of a passkey, 30 times', async () => {
    const scene = await aScene(target, manager);
    await atOnce(scene, 30, (await MEANS.passkey?.(scene)) ?? (() => Promise.reject(new Error())));
  });
  await t.test('two answers of a passkey open two, the later one first', async (t) => {
    const { browser } = await aScene(target, manager);
    const early = asserted(browser, await loginOptions(target));
    const late = asserted(browser, await loginOptions(target));
    for (const answer of [late, early]) t.equal((await sendPasskey(target, answer)).statusCode, 200);
    for (const answer of [late, early]) t.equal((await sendPasskey(target, answer)).statusCode, 401);
  });
});

test('whatever voids the password leaves no session', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await twoReplicas(t, { REDIS_URL: url, REDIS_PREFIX: prefix, ...PASSKEYS });
  const manager = await aManager(target.databaseUrl, target, MANAGER);
  // An operator's command leaves the tombstones to the sweep.
  target.composition.start();
  const locks = await aClient(t, target.databaseUrl);
  const watch = await aClient(t, target.databaseUrl);

  const cases = Object.entries(VOIDS).flatMap((voiding) =>
    Object.entries(MEANS).map((means) => [...voiding, ...means] as const),
  );
  for (const [name, act, means, prepare] of cases) {
    for (const isStepFirst of [true, false]) {
      await t.test(isStepFirst ? `${means}, then ${name}` : `${name}, then ${means}`, async (t) => {
        const scene = await aScene(target, manager);
        const { login_token, pair } = scene;
        const send = await prepare(scene);
        const step = begun(() => asked(send()));
        const voiding = begun(() => act(scene));
        const [first, second] = isStepFirst ? [step, voiding] : [voiding, step];
        await locks.query('BEGIN');
        await locks.query(`SELECT id FROM users WHERE id = ${pair.user.id} FOR NO KEY UPDATE`);
        await first.begin(watch);
        await second.begin(watch, first.isDone() ? 1 : 2);
        await locks.query('COMMIT');
        const [{ status, body }, voided] = [await step.result(), await voiding.result()];
        t.equal(voided.status, 200, voided.body);
        t.equal(status, isStepFirst ? 200 : 401, body);
        // The removal takes the factor under the step that has read it; the next request hears that the token is void.
        if (!isStepFirst) t.match(body, /invalid_login_token|invalid_second_factor|invalid_passkey/);
        t.equal(await liveSessions(scene), act === VOIDS[CHANGE] ? 1 : 0);
        const { access_token: opened } = JSON.parse(body) as Partial<Pair>;
        for (const token of [pair.access_token, opened ?? pair.access_token])
          await until(async () => (await verifyInScope(target, token)).statusCode === 401);
        const late = await secondStep(target, { login_token, code: await scene.factor.freshCode() });
        t.equal(late.json<{ code: string }>().code, 'invalid_login_token');
      });
    }
  }
});

test('a login goes on if Redis is emptied between its steps', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const env = { REDIS_URL: url, REDIS_PREFIX: prefix, RATE_LIMIT_FACTOR: '1/86400', ...PASSKEYS };
  const target = await buildTestApp(t, { env });
  const scene = await aScene(target, await aManager(target.databaseUrl, target, MANAGER));
  const { login_token, factor, browser } = scene;
  const used = asserted(browser, await loginOptions(target));
  pairOf(await sendPasskey(target, used));
  const passkey = asserted(browser, await loginOptions(target));
  const wrong = () => secondStep(target, { login_token, code: '000000' });
  t.equal((await wrong()).statusCode, 401);
  t.equal((await wrong()).statusCode, 429);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  await deleteKeys(redis, prefix);
  const { access_token: token } = pairOf(await secondStep(target, { login_token, code: factor.code() }));
  t.equal((await verifyInScope(target, token)).statusCode, 200);
  t.equal((await sendPasskey(target, used)).statusCode, 401, 'a used answer stays used');
  pairOf(await sendPasskey(target, passkey));
});

test('passkeys that are added or removed meanwhile', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await twoReplicas(t, { REDIS_URL: url, REDIS_PREFIX: prefix, ...PASSKEYS });
  const locks = await aClient(t, target.databaseUrl);
  const watch = await aClient(t, target.databaseUrl);

  await t.test('one credential for two accounts', async (t) => {
    const [{ access_token: one }, { access_token: other }] = [await signUp(target), await signUp(target)];
    const mine = created(aBrowser(), await enrolmentOptions(target, one));
    const theirs = created(aBrowser(), await enrolmentOptions(target, other));
    const { id, rawId, response } = mine;
    const same = { ...theirs, id, rawId };
    const { attestationObject } = response;
    // Without attestation, nothing in it is signed.
    const copied = { ...same, response: { ...theirs.response, attestationObject } };
    await locks.query('BEGIN');
    await locks.query('LOCK TABLE passkeys IN SHARE MODE');
    const answers = [asked(confirmPasskey(target, one, mine)), asked(confirmPasskey(target, other, copied))];
    await until(async () => (await waitingForLocks(watch)) >= 2);
    await locks.query('COMMIT');
    const statuses = (await Promise.all(answers)).map(({ status }) => status);
    t.strictSame(statuses.sort(), [200, 401]);
  });

  await t.test('two set-ups of an account leave one, and its answer alone is confirmed', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const [first, second] = await Promise.all([
      enrolmentOptions(target, token),
      enrolmentOptions(target, token),
    ]);
    t.equal(first.user.id, second.user.id, 'one handle');
    const [row] = await sql<{ secret: Buffer }>(
      target.databaseUrl,
      'SELECT secret FROM factors WHERE user_id = $1',
      [user.id],
    );
    const isFirst = row?.secret.toString('base64url') === first.challenge;
    const [left, gone] = isFirst ? [first, second] : [second, first];
    t.equal((await confirmPasskey(target, token, created(aBrowser(), gone))).statusCode, 401);
    t.equal((await confirmPasskey(target, token, created(aBrowser(), left))).statusCode, 200);
  });

  await t.test('a login with one before it is confirmed is not unknown', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const browser = aBrowser();
    const passkey = created(browser, await enrolmentOptions(target, token));
    const logIn = async () => asked(sendPasskey(target, asserted(browser, await loginOptions(target))));
    t.match(await logIn(), { status: 401, body: /invalid_passkey/ });
    await locks.query('BEGIN');
    await locks.query(`SELECT id FROM users WHERE id = ${user.id} FOR NO KEY UPDATE`);
    const confirmation = begun(() => asked(confirmPasskey(target, token, passkey)));
    await confirmation.begin(watch);
    t.match(await logIn(), { status: 401, body: /invalid_passkey/ });
    await locks.query('COMMIT');
    t.match(await confirmation.result(), { status: 200 });
    t.match(await logIn(), { status: 200 });
  });

  for (const isLoginFirst of [true, false])
    await t.test(isLoginFirst ? 'a login, then its removal' : 'a removal, then a login', async (t) => {
      const { access_token, user } = await signUp(target);
      const { id, browser } = await addPasskey(target, access_token);
      const { access_token: token } = await logInWithPasskey(target, browser);
      const answer = asserted(browser, await loginOptions(target));
      const login = begun(() => asked(sendPasskey(target, answer)));
      const line = `POST /api/user/factors/${id}/removal`;
      const payload = { current_password: 'difference engine' };
      const removal = begun(() => asked(call(target, line, { token, payload })));
      const [first, second] = isLoginFirst ? [login, removal] : [removal, login];
      await locks.query('BEGIN');
      await locks.query(`SELECT id FROM users WHERE id = ${user.id} FOR NO KEY UPDATE`);
      await first.begin(watch);
      await second.begin(watch, 2);
      await locks.query('COMMIT');
      t.match(await removal.result(), { status: 200 });
      // The passkey was there when the login read it, so it is not unknown.
      t.match(
        await login.result(),
        isLoginFirst ? { status: 200 } : { status: 401, body: /invalid_passkey/ },
      );
      t.equal(await liveSessions({ target, pair: { user } as Pair }), isLoginFirst ? 3 : 2);
    });
});

test('a first factor against a login with the password', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await twoReplicas(t, { REDIS_URL: url, REDIS_PREFIX: prefix });
  const locks = await aClient(t, target.databaseUrl);
  const watch = await aClient(t, target.databaseUrl);

  for (const isLoginFirst of [true, false]) {
    await t.test(isLoginFirst ? 'login, then confirmation' : 'confirmation, then login', async (t) => {
      const account = anAccount();
      const { username, password } = account;
      const pair = await signUp(target, account);
      const app = await setUpApp(target, pair.access_token);
      const login = begun(() => asked(call(target, 'POST /api/auth', { payload: { username, password } })));
      const confirmation = begun(() => asked(confirmApp(target, pair.access_token, app.code())));
      const [first, second] = isLoginFirst ? [login, confirmation] : [confirmation, login];
      await locks.query('BEGIN');
      await locks.query(`SELECT id FROM users WHERE id = ${pair.user.id} FOR NO KEY UPDATE`);
      await first.begin(watch);
      await second.begin(watch, first.isDone() ? 1 : 2);
      await locks.query('COMMIT');
      const [{ status, body }, confirmed] = [await login.result(), await confirmation.result()];
      t.equal(confirmed.status, 200, confirmed.body);
      t.equal(status, isLoginFirst ? 200 : 401, body);
      if (!isLoginFirst) t.match(body, /second_factor_required/);
      t.equal(await liveSessions({ target, pair }), isLoginFirst ? 2 : 1);
    });
  }
});
