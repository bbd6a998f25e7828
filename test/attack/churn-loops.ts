import { anAccount, call, claimsOf, pairOf, refresh, verify, type Pair } from '../support/client.ts';
import type { TestApp } from '../support/app.ts';
import { wantReset } from '../support/mails.ts';
import { postForm, type TestService } from '../support/registered-service.ts';

/** Repeats of a quick loop, and how many are under way at once. More than MAX_SESSIONS_PER_USER and RATE_LIMIT_LLT allow. */
export const TIMES = 130;
/** Of loops that begin with an account each time, or whose repeats follow each other. */
export const FEW = 20;

export interface User extends Pair {
  target: TestApp;
  /** May do everything. */
  service: TestService;
  account: ReturnType<typeof anAccount>;
}

export interface Loop {
  name: string;
  /** The operations that it repeats, by their names in the reference. */
  of: string[];
  /** How often each row of the table in docs/threat-model.md is left by all repeats. */
  leaves: Record<string, number>;
  /** Because an earlier repeat has left it already, or replaced it, the loop may leave less. */
  atMost?: true;
  times?: number;
  /** Answers of 200; all, by default. */
  succeeds?: number;
  /** What this does first is not counted. */
  begin: (user: User) => Repeat | Promise<Repeat>;
}

type Repeat = (i: number) => Promise<{ statusCode: number }>;

let callers = 0;

const NETWORK = { 'x-forwarded-for': '203.0.113.7' };

/** A caller of another network each time. */
export function elsewhere() {
  const caller = callers++;
  return { 'x-forwarded-for': `11.${caller >> 8}.${caller & 255}.7`, 'user-agent': `Tablet/${caller}` };
}

/** Opens an account. RATE_LIMIT_SIGNUP counts by address. */
export async function open(target: TestApp, payload = anAccount()): Promise<Pair> {
  return pairOf(await call(target, 'POST /api/auth/signup', { payload, headers: elsewhere() }));
}

/** Each repeat after the one before. */
export function inTurn(repeat: Repeat): Repeat {
  let last: Promise<unknown> = Promise.resolve();
  return (i) => {
    const answer = last.then(() => repeat(i));
    last = answer;
    return answer;
  };
}

/** What one request of a loop brings. */
type Asked = Parameters<typeof call>[2];

/** A loop of one request, each from elsewhere, by nobody. @param asked of this repeat. */
export function asking(line: string, asked: (i: number, user: User) => Asked): Loop['begin'] {
  return (user) => (i) => call(user.target, line, { headers: elsewhere(), ...asked(i, user) });
}

/** The same by the account's session. */
export function askingAsUser(line: string, payload?: (i: number) => object): Loop['begin'] {
  return asking(line, (i, { access_token: token }) => ({ token, ...(payload && { payload: payload(i) }) }));
}

async function logIn({ target, account: { username, password } }: User): Promise<Pair> {
  const payload = { username, password };
  return pairOf(await call(target, 'POST /api/auth', { payload, headers: elsewhere() }));
}

async function createAndDelete(target: TestApp, token: string, headers = {}) {
  const made = await call(target, 'POST /api/auth/llt', { token, payload: { device: 'Kitchen' }, headers });
  const { id } = made.json<{ id?: number }>();
  if (id !== undefined) await call(target, `DELETE /api/auth/llt/${id}`, { token });
  return made;
}

export const LOOPS: Loop[] = [
  {
    name: 'create and delete a long-lived token',
    of: ['createLongLivedToken', 'deleteLongLivedToken'],
    leaves: { 'LLT created and deleted': 100 },
    succeeds: 100,
    begin:
      ({ target, access_token: token }) =>
      () =>
        createAndDelete(target, token),
  },
  {
    name: 'the same with ten accounts of a network',
    of: ['createLongLivedToken', 'deleteLongLivedToken'],
    leaves: { 'LLT created and deleted': 100 },
    succeeds: 100,
    begin: async ({ target }) => {
      const accounts = await Promise.all(Array.from({ length: 10 }, () => open(target)));
      return (i) => createAndDelete(target, accounts[i % 10]?.access_token ?? '', NETWORK);
    },
  },
  {
    name: 'create limited tokens and let them end themselves',
    of: ['createLimitedToken', 'logOut'],
    leaves: { 'LLT created and deleted': FEW },
    times: FEW,
    begin:
      ({ target, access_token: token }) =>
      async () => {
        const payload = { name: 'Report', scopes: ['orders:read'] };
        const made = await call(target, 'POST /api/user/tokens', { token, payload });
        return call(target, 'DELETE /api/auth', { token: made.json<{ token: string }>().token });
      },
  },
  {
    name: 'keep long-lived tokens in use',
    of: ['createLongLivedToken'],
    leaves: { 'LLT in use': FEW },
    times: FEW,
    begin:
      ({ target, access_token: token }) =>
      async () => {
        const made = await call(target, 'POST /api/auth/llt', { token, payload: { device: 'Kitchen' } });
        return verify(target, made.json<{ longlived_token: string }>().longlived_token);
      },
  },
  {
    name: 'change the name',
    of: ['changeProfile'],
    leaves: { 'change of names': 60 },
    succeeds: 60,
    begin: askingAsUser('PATCH /api/user', (i) => ({ name: `Ada ${i}` })),
  },
  {
    name: 'log in with the right password',
    of: ['logIn'],
    leaves: { login: TIMES, 'login as the 101st session': TIMES - 99 },
    begin: asking('POST /api/auth', (_, { account: { username, password } }) => ({
      payload: { username, password },
    })),
  },
  {
    name: 'guess passwords of one name',
    of: ['logIn'],
    leaves: { 'failed login, wrong password': 10 },
    succeeds: 0,
    begin: asking('POST /api/auth', (i, { account: { username } }) => ({
      payload: { username, password: `guess ${i}` },
    })),
  },
  {
    name: 'guess passwords of many names',
    of: ['logIn'],
    leaves: { 'failed login, wrong password': TIMES },
    succeeds: 0,
    begin: asking('POST /api/auth', (i) => ({ payload: { username: `unknown-${i}`, password: 'guess' } })),
  },
  {
    name: 'guess tokens of resets',
    of: ['resetPassword'],
    leaves: { 'failed reset or verification': TIMES },
    succeeds: 0,
    begin: asking('POST /api/auth/password-reset', (i) => ({
      payload: { reset_token: `lkr_${i}`, password: 'an analytical engine' },
    })),
  },
  {
    name: 'guess tokens of verifications',
    of: ['verifyEmail'],
    leaves: { 'failed reset or verification': TIMES },
    succeeds: 0,
    begin: asking('POST /api/auth/email-verification', (i) => ({
      payload: { verification_token: `lkv_${i}` },
    })),
  },
  {
    name: 'guess the token of another address',
    of: ['changeEmail'],
    leaves: { 'failed proof of another address': 10 },
    succeeds: 0,
    begin: askingAsUser('POST /api/user/email', (i) => ({ verification_token: `lkv_${i}` })),
  },
  {
    name: 'sign up',
    of: ['signUp'],
    leaves: { signup: TIMES },
    begin: asking('POST /api/auth/signup', () => ({ payload: anAccount() })),
  },
  {
    name: 'refresh',
    of: ['refresh'],
    leaves: { 'refresh, verify, exchange': 0 },
    begin: ({ target, refresh_token: first }) => {
      let last = Promise.resolve(first);
      return () => {
        const answer = last.then((token) => refresh(target, token));
        last = answer.then((response) => pairOf(response).refresh_token);
        return answer;
      };
    },
  },
  {
    name: 'exchange and verify',
    of: ['getToken', 'verify'],
    leaves: { 'refresh, verify, exchange': 0 },
    begin:
      ({ target, access_token: token }) =>
      async () => {
        const form = {
          grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
          subject_token: token,
          subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
          audience: 'orders',
        };
        const headers = { authorization: `Bearer ${token}` };
        const exchanged = await postForm(target, '/api/auth/token', null, form, headers);
        return exchanged.statusCode === 200 ? verify(target, token) : exchanged;
      },
  },
  {
    name: 'log in and out',
    of: ['logIn', 'logOut'],
    leaves: { login: TIMES, 'logout, and each ended session': TIMES },
    begin: (user) => async () => {
      const { access_token: token } = await logIn(user);
      return call(user.target, 'DELETE /api/auth', { token });
    },
  },
  {
    name: 'log in, and end the session from another',
    of: ['logIn', 'logOutById', 'endToken'],
    leaves: { login: FEW, 'logout, and each ended session': FEW },
    times: FEW,
    begin: (user) => async (i) => {
      const { sid } = claimsOf((await logIn(user)).access_token);
      const path = i % 2 ? '/api/auth' : '/api/user/tokens';
      return call(user.target, `DELETE ${path}/${String(sid)}`, { token: user.access_token });
    },
  },
  {
    name: 'present a superseded refresh token',
    of: ['refresh'],
    leaves: { login: TIMES, 'reuse of a refresh token': TIMES },
    begin: (user) => async () => {
      const { target } = user;
      const { refresh_token: first } = await logIn(user);
      await verify(target, pairOf(await refresh(target, first)).access_token);
      // The second one finds the session ended.
      const answers = [await refresh(target, first, elsewhere()), await refresh(target, first, elsewhere())];
      return { statusCode: answers.every(({ statusCode }) => statusCode === 401) ? 200 : 500 };
    },
  },
  {
    name: 'log in, and change the password',
    of: ['logIn', 'changePassword'],
    leaves: { login: TIMES, 'change of a password': TIMES, 'logout, and each ended session': TIMES },
    atMost: true,
    begin: ({ target, access_token: token, account: { username, password } }) =>
      inTurn(async (i) => {
        const headers = elsewhere();
        const [now, next] = [i === 0 ? password : `analytical ${i}`, `analytical ${i + 1}`];
        const login = { username, password: now };
        const opened = await call(target, 'POST /api/auth', { payload: login, headers });
        const payload = { current_password: now, new_password: next };
        return opened.statusCode === 200
          ? call(target, 'POST /api/user/password', { token, payload, headers })
          : opened;
      }),
  },
  {
    name: 'ask for resets of one account',
    of: ['requestPasswordReset'],
    leaves: { 'a mail that is wanted': 3 },
    atMost: true,
    times: FEW,
    begin: ({ target, account: { username } }) =>
      inTurn(async () => {
        await wantReset(target, username);
        return { statusCode: 200 };
      }),
  },
  {
    name: 'ask for mails that prove one address',
    of: ['requestEmailVerification'],
    leaves: { 'a mail that is wanted': 3 },
    atMost: true,
    times: FEW,
    begin: askingAsUser('POST /api/user/email-verification'),
  },
  {
    name: 'log out again',
    of: ['logOut'],
    leaves: { 'logout, and each ended session': 1, 'logout or deletion, repeated': TIMES },
    atMost: true,
    begin: askingAsUser('DELETE /api/auth'),
  },
  {
    name: 'log out everywhere again',
    of: ['logOutEverywhere'],
    leaves: { 'logout, and each ended session': 1, 'logout or deletion, repeated': TIMES },
    atMost: true,
    begin: askingAsUser('DELETE /api/user/tokens'),
  },
];
