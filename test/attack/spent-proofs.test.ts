import { test, type Test } from 'tap';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, logIn, pairOf, signUp } from '../support/client.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../support/factors.ts';
import { ADMITTED, aHolder, answerOf, PATIENT, rowOf, sent } from '../support/lanes.ts';
import { verifyEmail } from '../support/mails.ts';
import { addPasskey, asserted, loginOptions, PASSKEYS, sendPasskey } from '../support/passkeys.ts';
import { aVerification } from '../support/resets.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

// What proves nothing any more costs its sender nothing, so it can be sent without end. It must not take the places of the
// owner's login in the account's lane, where only proofs wait.

const LOOP = ADMITTED + 1;

type Send = () => ReturnType<typeof sendPasskey>;

interface Owner {
  id: number;
  logIn: () => Promise<unknown>;
  /** Of a stranger. */
  send: Send;
}

async function withUsedPasskey(target: TestApp): Promise<Owner> {
  const { user, access_token: token } = await signUp(target);
  const { browser } = await addPasskey(target, token);
  const used = asserted(browser, await loginOptions(target));
  pairOf(await sendPasskey(target, used));
  const fresh = asserted(browser, await loginOptions(target));
  return {
    id: user.id,
    logIn: async () => pairOf(await sendPasskey(target, fresh)),
    send: () => sendPasskey(target, used),
  };
}

async function withWrongRecoveryCodes(target: TestApp): Promise<Owner> {
  const account = anAccount();
  const pair = await signUp(target, account);
  const factor = await aFactor(target, pair);
  const login_token = await firstStep(target, account.username);
  const recovery_code = 'MFRG-GZDF-MZTW-Q2LK-NNWG-2ZLB';
  return {
    id: pair.user.id,
    logIn: () => logInWithFactor(target, account.username, factor),
    send: () => secondStep(target, { login_token, recovery_code }),
  };
}

async function withUsedVerification(target: TestApp): Promise<Owner> {
  const { user } = await signUp(target);
  const token = await aVerification(target.databaseUrl, user.id);
  await verifyEmail(target, token);
  return {
    id: user.id,
    logIn: () => logIn(target, user.username),
    send: () => verifyEmail(target, token),
  };
}

test('what proves nothing any more keeps no owner waiting', async (t) => {
  const target = await buildTestApp(t, { env: { ...PATIENT, ...PASSKEYS } });
  const { hold, release, waiting } = await aHolder(t, target);

  const refusedAtOnce = async (t: Test, { id, logIn, send }: Owner) => {
    await hold(rowOf(id));
    const loop = sent(Array.from({ length: LOOP }, () => answerOf(send())));
    await until(() => loop.answers.length === LOOP);
    t.strictSame([...new Set(await loop.statuses())], [401]);
    t.equal(await waiting(), 0, 'none waits for the account');
    await release();
    await logIn();
  };
  await t.test('a passkey’s answer that was used', async (t) =>
    refusedAtOnce(t, await withUsedPasskey(target)),
  );
  await t.test('wrong recovery codes of who knows the password', async (t) =>
    refusedAtOnce(t, await withWrongRecoveryCodes(target)),
  );

  await t.test('the link of a mail that was used, whose repeat succeeds', async (t) => {
    const { id, logIn, send } = await withUsedVerification(target);
    await hold(rowOf(id));
    const loop = sent(Array.from({ length: LOOP }, () => answerOf(send())));
    await until(() => loop.refused() === LOOP - ADMITTED);
    const login = logIn();
    await until(() => loop.refused() === LOOP - ADMITTED + 1);
    await release();
    await login;
    t.equal((await loop.statuses()).filter((status) => status === 200).length, ADMITTED - 1);
  });
});
