import { test } from 'tap';
import { MAIL_KINDS, type MailKind } from '../../src/domain/mail-kinds.ts';
import { managerOf } from '../support/accounts.ts';
import { anAccount, call, createLimited, createLongLived, signUp } from '../support/client.ts';
import { aMailer, wantReset, type Mail } from '../support/mails.ts';
import { basic } from '../support/registered-service.ts';
import '../support/watch-leaks.ts';
import { aTarget, recordOf } from './target.ts';

const PASSWORD = 'difference engine';

/** Where the token of each kind of mail is good, and with whose session. */
const GOOD: Partial<Record<MailKind, string>> = {
  password_reset: 'reset',
  invitation: 'reset',
  email_verification: 'proof',
  email_change: 'change by its account',
};

test('a mailed token is good for one purpose and account, and once', async (t) => {
  const target = await aTarget(t, { EMAIL_VERIFICATION: 'true' });
  const mailer = await aMailer(target);
  const office = managerOf(target, target.client);

  /** An account that waits for a mail of every kind but an invitation, which is for one that nobody has opened. */
  const aUser = async () => {
    const account = anAccount();
    const pair = await signUp(target, account);
    await wantReset(target, account.username);
    const token = pair.access_token;
    const payload = { email: `new.${account.email}`, current_password: PASSWORD };
    t.equal((await call(target, 'PATCH /api/user', { token, payload })).statusCode, 200);
    const { longlived_token: llt } = await createLongLived(target, token);
    const { token: limited } = await createLimited(target, token);
    return { pair, llt, limited };
  };
  const [owner, other] = [await aUser(), await aUser()];
  const { username, name, email } = anAccount();
  t.equal((await office('POST /api/users', { username, name, email, invite: true })).statusCode, 200);
  const mails = await mailer.take(100, MAIL_KINDS);
  const isOthers = (mail: Mail) =>
    mail.user.id === other.pair.user.id || mail.user.id === target.pair.user.id;
  const tokens = mails.filter((mail) => !isOthers(mail) && mail.kind !== 'notice');
  t.strictSame(tokens.map(({ kind }) => kind).sort(), Object.keys(GOOD).sort());

  const changeBy = (by: { token?: string; headers?: Record<string, string> }) => (token: string) =>
    call(target, 'POST /api/user/email', { ...by, payload: { verification_token: token } });
  const USES: Record<string, (token: string) => ReturnType<typeof call>> = {
    reset: (token) =>
      call(target, 'POST /api/auth/password-reset', {
        payload: { reset_token: token, password: 'an analytical engine' },
      }),
    proof: (token) =>
      call(target, 'POST /api/auth/email-verification', { payload: { verification_token: token } }),
    'change by another account': changeBy({ token: other.pair.access_token }),
    'change by nobody': changeBy({}),
    'change by a service': changeBy({ headers: basic(target.client) }),
    'change by a long-lived token': changeBy({ token: owner.llt }),
    'change by a limited token': changeBy({ token: owner.limited }),
    'change by a refresh token': changeBy({ token: owner.pair.refresh_token }),
    'change by itself': (token) => changeBy({ token })(token),
    'change by its account': changeBy({ token: owner.pair.access_token }),
    login: (token) => call(target, 'POST /api/auth', { payload: { username: email, password: token } }),
    'second step': (token) =>
      call(target, 'POST /api/auth/second-factor', { payload: { login_token: token, code: '000000' } }),
    refresh: (token) => call(target, 'GET /api/auth/refresh', { token }),
    verify: (token) => call(target, 'GET /api/auth/verify', { token }),
  };

  const before = await recordOf(target);
  for (const { kind, token } of tokens)
    for (const [use, send] of Object.entries(USES).filter(([use]) => use !== GOOD[kind])) {
      const { statusCode } = await send(token);
      t.ok(statusCode === 401 || statusCode === 403, `${kind}, ${use}: ${statusCode}`);
    }
  t.strictSame(await recordOf(target), before, 'and nothing has changed');

  for (const kind of ['email_verification', 'email_change', 'password_reset', 'invitation'] as const) {
    const { token = '' } = tokens.find((mail) => mail.kind === kind) ?? {};
    const send = USES[GOOD[kind] ?? ''];
    if (!send) throw new Error(`no use of ${kind}`);
    const { statusCode, body } = await send(token);
    if (kind === 'password_reset') t.equal(statusCode, 401, 'a changed address voids resets');
    else t.equal(statusCode, 200, `${kind}: ${body}`);
    // A proof may be repeated after a lost answer, until the address changes.
    const isProof = kind.startsWith('email');
    t.equal((await send(token)).statusCode, isProof ? 200 : 401, `${kind} again`);
  }
  const { token: former = '' } = tokens.find(({ kind }) => kind === 'email_verification') ?? {};
  t.equal((await USES.proof?.(former))?.statusCode, 401, 'a proof of the former address');
});
