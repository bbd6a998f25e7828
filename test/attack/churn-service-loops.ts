import { anAccount, call, createLongLived, logIn } from '../support/client.ts';
import { aFactor } from '../support/factors.ts';
import { basic, introspect, revoke } from '../support/registered-service.ts';
import { redeem } from '../support/resets.ts';
import { elsewhere, FEW, inTurn, open, TIMES, type Loop, type User } from './churn-loops.ts';

/** What a registered service repeats that may do everything. */
function asService({ target, service }: User) {
  return (line: string, payload?: object) =>
    call(target, line, { headers: basic(service), ...(payload && { payload }) });
}

export const SERVICE_LOOPS: Loop[] = [
  {
    name: 'issue reset tokens',
    of: ['createPasswordReset'],
    leaves: { 'reset token, by a service': TIMES },
    atMost: true,
    begin: (user) => () => asService(user)(`POST /api/users/${user.user.id}/password-reset`),
  },
  {
    name: 'invite a new account',
    of: ['inviteUser'],
    leaves: { 'invitation, by a service': FEW },
    atMost: true,
    times: FEW,
    begin: async (user) => {
      const { username, name, email } = anAccount();
      const made = await asService(user)('POST /api/users', { username, name, email });
      const { id } = made.json<{ id: number }>();
      return () => asService(user)(`POST /api/users/${id}/invitation`);
    },
  },
  {
    name: 'issue reset tokens and redeem them',
    of: ['createPasswordReset', 'resetPassword'],
    leaves: {
      'reset token, by a service': FEW,
      'change of a password': FEW,
      'logout, and each ended session': 1,
    },
    atMost: true,
    times: FEW,
    begin: (user) =>
      inTurn(async (i) => {
        const made = await asService(user)(`POST /api/users/${user.user.id}/password-reset`);
        const { reset_token: token } = made.json<{ reset_token: string }>();
        return redeem(user.target, token, `an analytical engine ${i}`, elsewhere());
      }),
  },
  {
    name: 'introspect, and end sessions',
    of: ['introspect', 'revoke'],
    leaves: { login: FEW, 'logout, and each ended session': FEW },
    times: FEW,
    begin:
      ({ target, service, account }) =>
      async () => {
        const { refresh_token, access_token } = await logIn(target, account.username);
        await introspect(target, service, access_token);
        return revoke(target, service, refresh_token);
      },
  },
  {
    name: 'report uses of a token, and of others that there are not',
    of: ['reportUses'],
    leaves: { 'uses that a service reports': TIMES },
    begin: async (user) => {
      const { target, access_token: access } = user;
      const { id } = await createLongLived(target, access);
      return (i) =>
        asService(user)('POST /api/auth/uses', { tokens: Array.from({ length: 500 }, (_, n) => id + n * i) });
    },
  },
  {
    name: 'confirm a position, each time as another process',
    of: ['confirmRevocations'],
    leaves: { 'confirmation of a reader': TIMES },
    begin: (user) => (i) =>
      asService(user)(`PUT /api/auth/revocations/readers/${'r'.repeat(16)}${i}`, { position: `epoch.${i}` }),
  },
  {
    name: 'say goodbye as processes that there are not',
    of: ['leaveRevocations'],
    leaves: {},
    begin: (user) => (i) => asService(user)(`DELETE /api/auth/revocations/readers/${'g'.repeat(16)}${i}`),
  },
  {
    name: 'open accounts and delete them',
    of: ['createUser', 'deleteUser'],
    leaves: { 'account opened by a service': FEW, 'account deleted by a service': FEW },
    times: FEW,
    begin: (user) => async () => {
      const { username, name, email } = anAccount();
      const made = await asService(user)('POST /api/users', { username, name, email });
      return asService(user)(`DELETE /api/users/${made.json<{ id: number }>().id}`);
    },
  },
  {
    name: 'change an account',
    of: ['changeUser'],
    leaves: { 'account changed by a service': FEW },
    times: FEW,
    begin: (user) => (i) => asService(user)(`PATCH /api/users/${user.user.id}`, { name: `Ada ${i}` }),
  },
  {
    name: 'end all tokens of an account',
    of: ['endUserTokens'],
    leaves: { login: FEW, 'logout, and each ended session': FEW },
    times: FEW,
    begin: (user) =>
      inTurn(async () => {
        await logIn(user.target, user.account.username);
        return asService(user)(`DELETE /api/users/${user.user.id}/tokens`);
      }),
  },
  {
    name: 'remove the factors of new accounts',
    of: ['removeUserFactors'],
    leaves: { signup: FEW, 'factor removed': FEW, 'logout, and each ended session': FEW },
    atMost: true,
    times: FEW,
    begin: (user) => async () => {
      const pair = await open(user.target);
      await aFactor(user.target, pair);
      return asService(user)(`DELETE /api/users/${pair.user.id}/factors`);
    },
  },
  {
    name: 'report the addresses of new accounts',
    of: ['reportUndeliverable'],
    leaves: { signup: FEW, 'account changed by a service': FEW },
    times: FEW,
    begin: (user) => async () => {
      const { username } = (await open(user.target)).user;
      return asService(user)('POST /api/users/mails/undeliverable', { email: `${username}@example.com` });
    },
  },
  {
    name: 'take and settle the mails of new accounts, which prove their addresses',
    of: ['takeMails', 'settleMail', 'requestEmailVerification', 'verifyEmail'],
    leaves: { signup: FEW, 'a mail that is wanted': FEW, 'a mail taken, and its token used': FEW },
    times: FEW,
    begin: (user) =>
      inTurn(async () => {
        const { target } = user;
        const { access_token: token } = await open(target);
        await call(target, 'POST /api/user/email-verification', { token, headers: elsewhere() });
        const taken = await asService(user)('POST /api/users/mails', {});
        const { mails } = taken.json<{ mails: { id: number; kind: string; token: string }[] }>();
        for (const { id } of mails) await asService(user)(`DELETE /api/users/mails/${id}`);
        const proof = mails.find(({ kind }) => kind === 'email_verification')?.token;
        return call(target, 'POST /api/auth/email-verification', {
          payload: { verification_token: proof },
          headers: elsewhere(),
        });
      }),
  },
];
