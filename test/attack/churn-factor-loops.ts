import { anAccount, call } from '../support/client.ts';
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
  sendPasskey,
} from '../support/passkeys.ts';
import { elsewhere, FEW, inTurn, open, TIMES, type Loop, type User } from './churn-loops.ts';

export const FACTOR_LOOPS: Loop[] = [
  {
    name: 'log in with a second factor',
    of: ['logIn', 'completeLogin'],
    leaves: { 'first step of a login': FEW, login: FEW },
    times: FEW,
    begin: async (user) => {
      const factor = await aFactor(user.target, user);
      return inTurn(async () => {
        await logInWithFactor(user.target, user.account.username, factor, elsewhere());
        return { statusCode: 200 };
      });
    },
  },
  {
    name: 'guess codes of one account',
    of: ['completeLogin'],
    leaves: { 'wrong code': 20 },
    succeeds: 0,
    begin: async (user) => {
      const login_token = await aLoginToken(user);
      return () => secondStep(user.target, { login_token, code: '000000' }, elsewhere());
    },
  },
  {
    name: 'send text that is no code',
    of: ['completeLogin'],
    leaves: { 'text that is no code': TIMES },
    succeeds: 0,
    begin: async (user) => {
      const login_token = await aLoginToken(user);
      return (i) =>
        secondStep(user.target, { login_token, [i % 2 ? 'code' : 'recovery_code']: 'x' }, fromSite(i));
    },
  },
  {
    name: 'set apps up, and guess their codes',
    of: ['setUpTotp', 'confirmTotp'],
    leaves: { 'app set up': 1, 'wrong code': 100 },
    succeeds: 0,
    begin: ({ target, access_token: token }) =>
      inTurn(async () => {
        const asked = { token, headers: elsewhere() };
        await call(target, 'POST /api/user/factors/totp', { ...asked, payload: FACTOR_PASSWORD });
        const payload = { code: '000000' };
        return call(target, 'POST /api/user/factors/totp/confirm', { ...asked, payload });
      }),
  },
  {
    name: 'add apps to new accounts',
    of: ['setUpTotp', 'confirmTotp'],
    leaves: { signup: FEW, 'factor added': FEW },
    times: FEW,
    begin:
      ({ target }) =>
      async () => {
        const { access_token: token } = await open(target);
        const app = await setUpApp(target, token);
        return confirmApp(target, token, app.code());
      },
  },
  {
    name: 'add passkeys to new accounts',
    of: ['setUpPasskey', 'confirmPasskey'],
    leaves: { signup: FEW, 'passkey added': FEW },
    times: FEW,
    begin:
      ({ target }) =>
      async () => {
        const { access_token: token } = await open(target);
        const options = await enrolmentOptions(target, token);
        return confirmPasskey(target, token, created(aBrowser(), options));
      },
  },
  {
    name: 'set passkeys up, and confirm none',
    of: ['setUpPasskey', 'confirmPasskey'],
    leaves: { 'passkey set up': 1 },
    succeeds: 0,
    begin: ({ target, access_token: token }) =>
      inTurn(async () => {
        const options = await enrolmentOptions(target, token, elsewhere());
        const passkey = created(aBrowser(), { ...options, challenge: 'AAAA' });
        return confirmPasskey(target, token, passkey, 'Phone', elsewhere());
      }),
  },
  {
    name: 'log in with a passkey',
    of: ['getPasskeyOptions', 'completeLogin'],
    leaves: { 'login with a passkey': 100, 'login as the 101st session': 1 },
    succeeds: 100,
    begin: async ({ target, access_token: token }) => {
      const { browser } = await addPasskey(target, token);
      return async () => sendPasskey(target, asserted(browser, await loginOptions(target)), {}, elsewhere());
    },
  },
  {
    name: 'send a passkey that was used',
    of: ['getPasskeyOptions', 'completeLogin'],
    leaves: { 'passkey refused': TIMES },
    succeeds: 0,
    begin: async ({ target, access_token: token }) => {
      const { browser } = await addPasskey(target, token);
      const passkey = asserted(browser, await loginOptions(target));
      await sendPasskey(target, passkey, {}, elsewhere());
      return () => sendPasskey(target, passkey, {}, elsewhere());
    },
  },
  {
    name: 'replace recovery codes',
    of: ['replaceRecoveryCodes'],
    leaves: { 'new recovery codes': FEW },
    times: FEW,
    begin: async (user) => {
      const factor = await aFactor(user.target, user);
      const { access_token: token } = await logInWithFactor(user.target, user.account.username, factor);
      return inTurn(() => {
        const options = { token, payload: FACTOR_PASSWORD, headers: elsewhere() };
        return call(user.target, 'POST /api/user/factors/recovery-codes', options);
      });
    },
  },
  {
    name: 'remove the factors of new accounts',
    of: ['removeFactor'],
    leaves: {
      signup: FEW,
      'factor added': FEW,
      'first step of a login': FEW,
      login: FEW,
      'factor removed': FEW,
    },
    atMost: true,
    times: FEW,
    begin:
      ({ target }) =>
      async () => {
        const account = anAccount();
        const factor = await aFactor(target, await open(target, account));
        const { access_token: token } = await logInWithFactor(target, account.username, factor, elsewhere());
        const options = { token, payload: FACTOR_PASSWORD, headers: elsewhere() };
        return call(target, `POST /api/user/factors/${factor.id}/removal`, options);
      },
  },
];

async function aLoginToken(user: User): Promise<string> {
  await aFactor(user.target, user);
  return firstStep(user.target, user.account.username);
}

/** Another /64 of one /48 each time. */
function fromSite(i: number) {
  return { 'x-forwarded-for': `2001:db8:77:${i.toString(16)}::1` };
}
