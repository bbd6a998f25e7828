import type { LightMyRequestResponse } from 'fastify';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, call, createLongLived, logIn, pairOf, signUp } from '../support/client.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../support/factors.ts';
import { ALLOWED, HOME, LIMITS, PASSWORD, stranger, type Headers } from '../support/guessing.ts';
import { refused } from '../support/problem.ts';
import { aReset, redeem } from '../support/resets.ts';
import { onAStore } from '../support/stores.ts';
import { aForgedRefresh } from '../support/tokens.ts';
import '../support/watch-leaks.ts';

const NEW_PASSWORD = 'an analytical engine';

/** An account whose owner has logged in with the factor from home. */
async function anOwner(target: TestApp) {
  const account = anAccount();
  const pair = pairOf(await call(target, 'POST /api/auth/signup', { payload: account, headers: HOME }));
  const factor = await aFactor(target, pair);
  return { ...account, pair, factor, home: await logInWithFactor(target, account.username, factor, HOME) };
}

onAStore('a thief who knows the password', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, ...LIMITS, RATE_LIMIT_FACTOR: `${ALLOWED}/86400` } });
  /** Wrong codes, each from another of 500 addresses unless told otherwise. @returns the answers */
  const guess = async (login_token: string, count: number, headers: (i: number) => Headers = stranger) => {
    const answers: LightMyRequestResponse[] = [];
    await Promise.all(
      Array.from({ length: count }, async (_, i) => {
        answers.push(await secondStep(target, { login_token, code: '000000' }, headers(i)));
      }),
    );
    return answers;
  };
  /** How many answers have each status. */
  const statuses = (answers: LightMyRequestResponse[]) =>
    Object.fromEntries(
      [...new Set(answers.map(({ statusCode }) => statusCode))].map((status) => [
        status,
        answers.filter(({ statusCode }) => statusCode === status).length,
      ]),
    );

  await t.test('is stopped after a few codes, from 500 addresses, and the owner is not', async (t) => {
    const owner = await anOwner(target);
    const token = await firstStep(target, owner.username, { headers: stranger(0) });
    t.strictSame(statuses(await guess(token, 500)), { 401: ALLOWED, 429: 500 - ALLOWED });
    const right = async (headers: Headers, login_token = token) =>
      secondStep(target, { login_token, code: await owner.factor.freshCode() }, headers);
    const late = await right(stranger(3));
    refused(t, late, 429, 'rate_limited');
    t.ok(Number(late.headers['retry-after']) > 86_000, 'until tomorrow');
    t.equal((await right(HOME)).statusCode, 200, 'the owner’s device');
    const authorization = `Bearer ${owner.home.refresh_token}`;
    t.equal((await right({ ...stranger(4), authorization })).statusCode, 200, 'from anywhere, by its token');
    const [recovery_code = ''] = owner.factor.recoveryCodes;
    const answer = await secondStep(target, { login_token: token, recovery_code }, stranger(5));
    t.equal(answer.statusCode, 200, 'and a recovery code from a new one');
    t.match(
      target
        .audit()
        .filter(({ event }) => event === 'limit.reached')
        .at(-1),
      {
        subject: { user_id: owner.pair.user.id },
        details: { limit: 'factor' },
      },
    );
    const another = await anOwner(target);
    const other = await firstStep(target, another.username, { headers: stranger(0) });
    const code = await another.factor.freshCode();
    t.equal((await secondStep(target, { login_token: other, code }, stranger(0))).statusCode, 200);
  });

  await t.test('gets no more by sessions and long-lived tokens of before the factor', async (t) => {
    const account = anAccount();
    const { username } = account;
    const pair = await signUp(target, account);
    const bearers: string[] = [];
    for (let i = 0; i < 100; i++) {
      const { access_token: token, refresh_token } = await logIn(target, username);
      const { id, longlived_token: llt } = await createLongLived(target, token);
      await call(target, `DELETE /api/auth/llt/${id}`, { token });
      bearers.push(refresh_token, llt);
    }
    const factor = await aFactor(target, pair);
    const token = await firstStep(target, username, { headers: stranger(0) });
    const withBearer = (i: number) => ({ ...stranger(i), authorization: `Bearer ${bearers[i]}` });
    t.strictSame(statuses(await guess(token, bearers.length, withBearer)), {
      401: ALLOWED,
      429: 200 - ALLOWED,
    });
    refused(
      t,
      await secondStep(target, { login_token: token, code: factor.code() }, withBearer(7)),
      429,
      'rate_limited',
    );
  });

  await t.test('gets no other account’s device, and a device of the owner has a limit too', async (t) => {
    const owner = await anOwner(target);
    const thief = await anOwner(target);
    const token = await firstStep(target, owner.username, { headers: stranger(0) });
    await guess(token, ALLOWED);
    const others = { ...stranger(9), authorization: `Bearer ${thief.home.refresh_token}` };
    const code = await owner.factor.freshCode();
    refused(t, await secondStep(target, { login_token: token, code }, others), 429, 'rate_limited');
    t.strictSame(statuses(await guess(token, ALLOWED + 5, () => HOME)), { 401: ALLOWED, 429: 5 });
    refused(t, await secondStep(target, { login_token: token, code }, HOME), 429, 'rate_limited');
  });

  await t.test('has no tries left to give the owner, once the password is another', async (t) => {
    const owner = await anOwner(target);
    const token = await firstStep(target, owner.username, { headers: stranger(0) });
    await guess(token, ALLOWED);
    await redeem(target, await aReset(target.databaseUrl, owner.pair.user.id), NEW_PASSWORD);
    refused(
      t,
      await secondStep(target, { login_token: token, code: owner.factor.code() }, stranger(1)),
      401,
      'invalid_login_token',
    );
    const renewed = await firstStep(target, owner.username, { password: NEW_PASSWORD, headers: stranger(2) });
    const code = await owner.factor.freshCode();
    t.equal((await secondStep(target, { login_token: renewed, code }, stranger(2))).statusCode, 200);
  });

  await t.test('gets no tries without end by new passwords', async (t) => {
    for (const renewal of ['a change by a stolen session', 'resets of a stolen mailbox']) {
      const owner = await anOwner(target);
      let password = PASSWORD;
      const renew = async (to: string) => {
        const payload = { current_password: password, new_password: to };
        const response =
          renewal === 'resets of a stolen mailbox'
            ? await redeem(target, await aReset(target.databaseUrl, owner.pair.user.id), to)
            : await call(target, 'POST /api/user/password', { token: owner.home.access_token, payload });
        t.equal(response.statusCode, 200, renewal);
        password = to;
      };
      for (let i = 0; i < 6; i++) {
        const token = await firstStep(target, owner.username, { password, headers: stranger(i) });
        t.strictSame(statuses(await guess(token, ALLOWED)), i < 5 ? { 401: ALLOWED } : { 429: ALLOWED });
        await renew(`${NEW_PASSWORD} ${i}`);
      }
      const login_token = await firstStep(target, owner.username, { password, headers: HOME });
      const code = await owner.factor.freshCode();
      t.match((await secondStep(target, { login_token, code }, HOME)).json(), { reason: 'factor_total' });
      const [recovery_code = ''] = owner.factor.recoveryCodes;
      const answer = await secondStep(target, { login_token, recovery_code }, stranger(1));
      t.equal(answer.statusCode, 200, 'and the owner gets in by a recovery code');
    }
  });

  await t.test(
    'gets no tries without end by a leaked refresh token secret, which makes known devices',
    async (t) => {
      const owner = await anOwner(target);
      const token = await firstStep(target, owner.username, { headers: stranger(0) });
      const answers: LightMyRequestResponse[] = [];
      for (let tokenId = 1; tokenId <= 7; tokenId++) {
        const authorization = `Bearer ${await aForgedRefresh(target, { userId: owner.pair.user.id, tokenId })}`;
        answers.push(...(await guess(token, ALLOWED, (i) => ({ ...stranger(i), authorization }))));
      }
      t.strictSame(statuses(answers), { 401: 5 * ALLOWED, 429: 2 * ALLOWED });
    },
  );

  await t.test('uses up none of the owner’s tries of the password, and the other way round', async (t) => {
    const owner = await anOwner(target);
    for (let i = 0; i < ALLOWED; i++)
      await call(target, 'POST /api/auth', {
        payload: { username: owner.username, password: 'wrong' },
        headers: stranger(i),
      });
    const authorization = `Bearer ${owner.pair.refresh_token}`;
    const token = await firstStep(target, owner.username, { headers: { ...stranger(1), authorization } });
    await guess(token, ALLOWED + 1);
    for (let i = 0; i < ALLOWED + 2; i++)
      t.ok(await firstStep(target, owner.username, { password: PASSWORD, headers: HOME }), 'right passwords');
    const code = await owner.factor.freshCode();
    t.equal((await secondStep(target, { login_token: token, code }, HOME)).statusCode, 200);
  });

  await t.test(
    'who sends text that is no code uses nothing up, and meets the limit by address',
    async (t) => {
      const limits = {
        RATE_LIMIT_LOGIN: '30/900',
        RATE_LIMIT_NETWORK: '5/900',
        RATE_LIMIT_FACTOR: '1/86400',
      };
      const limited = await buildTestApp(t, { env: { ...env, ...LIMITS, ...limits } });
      const owner = await anOwner(limited);
      const login_token = await firstStep(limited, owner.username, { headers: stranger(0) });
      const before = limited.audit().length;
      const answers: Record<string, number> = {};
      const texts = [
        '',
        '12345',
        '1234567',
        'wrong!',
        '\u00b9\u00b2\u00b3456',
        'x'.repeat(10_000),
        'MFRG-GZDF',
      ];
      for (let i = 0; i < 10_000; i++) {
        const text = texts[i % texts.length] ?? '';
        const given = i % 2 ? { code: text } : { recovery_code: text };
        // 200 addresses of one network, each 50 times: 30 are read.
        const answer = await secondStep(limited, { login_token, ...given }, stranger(i % 200));
        answers[answer.statusCode] = (answers[answer.statusCode] ?? 0) + 1;
      }
      t.strictSame(
        answers,
        { 400: 200 * 30 - 1, 429: 200 * 20 + 1 },
        'one of the first address was the login',
      );
      const events = limited.audit().slice(before);
      t.ok(
        events.every(({ event }) => event === 'limit.reached'),
        'no event of a guess',
      );
      const code = await owner.factor.freshCode();
      t.equal(
        (await secondStep(limited, { login_token, code }, stranger(201))).statusCode,
        200,
        'the owner gets in',
      );
      const [recovery_code = ''] = owner.factor.recoveryCodes;
      t.equal((await secondStep(limited, { login_token, recovery_code }, stranger(202))).statusCode, 200);
    },
  );

  await t.test('who guesses recovery codes is stopped by network', async (t) => {
    const limited = await buildTestApp(t, { env: { ...env, ...LIMITS, RATE_LIMIT_NETWORK: '5/900' } });
    const owner = await anOwner(limited);
    const login_token = await firstStep(limited, owner.username, { headers: stranger(0) });
    const attempt = (recovery_code: string, i: number) =>
      secondStep(limited, { login_token, recovery_code }, stranger(i));
    const wrong = 'MFRG-GZDF-MZTW-Q2LK-NNWG-2ZLB';
    for (let i = 0; i < 5; i++) refused(t, await attempt(wrong, 0), 401, 'invalid_second_factor');
    const [recovery_code = ''] = owner.factor.recoveryCodes;
    refused(t, await attempt(recovery_code, 0), 429, 'rate_limited');
    t.equal((await attempt(recovery_code, 1)).statusCode, 200, 'the owner is in another one');
  });
});
