import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeSignUp, type SignUpRequest } from '../../../src/domain/sessions/sign-up.ts';
import { makeNewNames } from '../../../src/domain/users/new-names.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { aClock } from '../../support/clock.ts';
import { aFeed, published } from '../../support/feed.ts';
import { makeSteps, newPasswordPorts } from '../../support/steps.ts';

interface Given {
  away?: string;
  fault?: Error;
  enabled?: boolean;
}

/** Bob's username is taken. */
function aService({ away, fault, enabled = true }: Given = {}) {
  const clock = aClock();
  const steps = makeSteps(away, fault);
  const { done, step } = steps;
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const feed = aFeed();
  const events: AuditEvent[] = [];
  const refusals: string[] = [];
  const signUp = makeSignUp({
    ...newPasswordPorts(steps),
    users: {
      findTaken: async ({ username, email }) => {
        await step('find', username, email);
        return username === 'bob' ? ['email', 'username'] : [];
      },
      addWithSession: async ({ username, name, email, passwordHash, locale }, session) => {
        await step('add', username, name, email, Buffer.from(passwordHash), locale);
        await step('open', session.name, session.createdAt, session.state.caller);
        return { userId: 7, tokenId: 11 };
      },
    },
    tokenStates: {
      ...tokenStates,
      now: async () => {
        await step('now');
        return tokenStates.now();
      },
    },
    feed,
    newNames: makeNewNames(['admin']),
    networkBudget: async ({ network }, _from, task) => {
      await step('spend', network);
      return task();
    },
    enabled,
    audit: (event) => events.push(event),
    observe: { signUpRefused: (reason) => refusals.push(reason) },
  });
  const attempt = (request: Partial<SignUpRequest> = {}) =>
    signUp({
      username: ' Ada',
      name: 'Ada Lovelace ',
      email: 'ada@example.com',
      device: 'Firefox',
      password: 'difference engine',
      caller: 'home',
      locale: 'pt-BR',
      network: '192.0.2.0/24',
      from: NO_REQUEST,
      turn: ['192.0.2.0/24', '192.0.2.1'],
      ...request,
    });
  return { clock, done, tokenStates, feed, events, refusals, attempt };
}

test('a signup opens an account and a session, and tells the stores and the feed of them', async (t) => {
  const { clock, done, tokenStates, feed, events, refusals, attempt } = aService();
  const { generation, ...grant } = await attempt();
  const createdAt = clock.now();
  const user = {
    id: 7,
    username: 'ada',
    name: 'Ada Lovelace',
    createdAt,
    disabled: false,
    emailVerified: false,
    roles: [],
    version: 0,
  };
  t.strictSame(grant, { user, tokenId: 11, createdAt, acr: null });
  t.strictSame(done, [
    'spend 192.0.2.0/24',
    'find ada ada@example.com',
    'hash signup 192.0.2.0/24 192.0.2.1',
    'now',
    'add ada Ada Lovelace ada@example.com hash of difference engine pt-BR',
    `open Firefox ${createdAt} home`,
  ]);
  t.match(await tokenStates.checkAccess({ userId: 7, tokenId: 11 }, generation), {
    outcome: 'good',
    user,
    createdAt,
    confirmed: { latest: generation, caller: 'home' },
  });
  t.strictSame(await published(feed), ['created 7@0']);
  t.strictSame(events, [{ event: 'user.signed_up', userId: 7, tokenId: 11 }]);
  t.strictSame(refusals, []);
});

test('signup can be turned off', async (t) => {
  const { done, attempt } = aService({ enabled: false });
  await t.rejects(attempt({ username: '' }), { code: 'signup_disabled' });
  t.strictSame(done, []);
});

test('all fields that are refused are named together, and cost nothing', async (t) => {
  const { done, refusals, attempt } = aService();
  const errors = ['username', 'name', 'email', 'password', 'device'].map((name) => ({ path: `/${name}` }));
  await t.rejects(attempt({ username: 'admin', name: ' ', email: 'ada', password: 'short', device: ' ' }), {
    code: 'validation_failed',
    errors,
  });
  t.strictSame(done, []);
  t.strictSame(refusals, [], 'a slip is not counted');
});

test('a name that is taken costs no hash, and one that is taken meanwhile opens no session', async (t) => {
  const { done, refusals, attempt } = aService();
  await t.rejects(attempt({ username: 'bob' }), {
    code: 'username_taken',
    errors: [
      { path: '/username', code: 'taken' },
      { path: '/email', code: 'taken' },
    ],
  });
  t.match(done.at(-1), /^find/);
  t.strictSame(refusals, ['username_taken']);
  const late = aService({ away: 'add', fault: new AuthError('email_taken') });
  await t.rejects(late.attempt(), { code: 'email_taken' });
  t.strictSame(late.refusals, ['email_taken']);
});

test('a password that is guessed first is refused and counted', async (t) => {
  for (const password of ['password', 'Ada Lovelace']) {
    const { done, refusals, attempt } = aService();
    await t.rejects(attempt({ password }), { code: 'password_refused', errors: [{ path: '/password' }] });
    t.strictSame(done, []);
    t.strictSame(refusals, ['password_refused']);
  }
});

test('while the fast store is down, nothing is written', async (t) => {
  const { done, events, refusals, attempt } = aService({ away: 'now' });
  await t.rejects(attempt(), { code: 'unavailable' });
  t.equal(done.at(-1), 'now');
  t.strictSame(events, []);
  t.strictSame(refusals, []);
});

test('a bug is passed on, and is no refusal', async (t) => {
  const fault = Object.assign(new Error('not ours'), { code: 'email_taken' });
  const { refusals, attempt } = aService({ away: 'add', fault });
  await t.rejects(attempt(), fault);
  t.strictSame(refusals, []);
});
