import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeLogIn } from '../../../src/domain/sessions/log-in.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser } from '../../support/token.ts';

const PASSWORD = 'différence engine';
const DUMMY = Buffer.from('dummy');
const OLD = Buffer.from(`old ${PASSWORD}`);

interface Given {
  disabled?: boolean;
  maxSessions?: number;
  /** SESSION_MAX_AGE in seconds; 0 for none. */
  maxAge?: number;
  /** Which step answers 503. */
  away?: 'hash' | 'replaceHash' | 'revoke' | 'now';
  fault?: Error;
}

/** Ada, whose password is a différence engine, hashed as of old; and everything that a login does. */
function aService({ disabled = false, maxSessions = 100, maxAge = 0, away, fault }: Given = {}) {
  const clock = aClock();
  const ada = aUser({ id: 1, disabled });
  const tokens = makeMemoryTokenStore([ada]);
  const states = makeMemorySessionState({ cacheTtl: 3600, now: clock.micros });
  const events: AuditEvent[] = [];
  const done: string[] = [];
  const step = async (name: string, isAway = false) => {
    done.push(name);
    if (isAway) throw fault ?? new AuthError('unavailable');
    return Promise.resolve();
  };
  const account = { user: ada, passwordHash: OLD as Uint8Array };
  const logIn = makeLogIn({
    users: {
      findForLogin: async (name) => {
        await step(`find ${Object.values(name).join()}`);
        return Object.values(name).includes('ada') ? account : null;
      },
      replaceHash: async (userId, from, to) => {
        await step(
          `replace ${userId} ${Buffer.from(from).toString()} by ${Buffer.from(to).toString()}`,
          away === 'replaceHash',
        );
        account.passwordHash = to;
      },
    },
    tokens,
    revocations: tokens,
    states: {
      now: async () => {
        await step('now', away === 'now');
        return states.now();
      },
      put: (...args) => states.put(...args),
      revoke: async (key) => {
        await step(`bury ${key.tokenId}`, away === 'revoke');
        return states.revoke(key);
      },
    },
    hasher: {
      hash: async (password) => {
        await step('hash', away === 'hash');
        return Buffer.from(`new ${password}`);
      },
      verify: async (hash, password) => {
        const text = Buffer.from(hash).toString();
        await step(`verify ${text.split(' ', 1).join()}`);
        return text.endsWith(` ${password}`);
      },
      isOutdated: (hash) => Buffer.from(hash).toString().startsWith('old'),
    },
    bulkhead: { run: (work) => work() },
    dummyHash: DUMMY,
    lifetimes: { accessToken: 900, refreshToken: 3600, session: maxAge },
    maxSessions,
    clock,
    audit: (event) => events.push(event),
  });
  const attempt = (request: Partial<Parameters<typeof logIn>[0]> = {}) =>
    logIn({ username: 'ada', password: PASSWORD, device: 'Firefox', client: 'home', ...request });
  return { clock, ada, tokens, states, events, done, attempt };
}

test('a login opens a session, on record and in the fast store', async (t) => {
  const { clock, ada, tokens, states, events, attempt } = aService();
  const grant = await attempt({ username: ' ADA ' });
  t.match(grant, { user: ada, createdAt: clock.now() });
  const key = { userId: 1, tokenId: grant.tokenId };
  t.match(await states.checkAccess(key, grant.generation), {
    outcome: 'good',
    confirmed: { client: 'home' },
  });
  const record = (await tokens.find(grant.tokenId))?.record;
  t.match(record, {
    type: 'session',
    name: 'Firefox',
    createdAt: clock.now(),
    state: { latest: grant.generation },
  });
  t.strictSame(events, [{ event: 'session.created', userId: 1, tokenId: grant.tokenId }]);
});

test('whatever is wrong: one look-up, one hash, the same answer', async (t) => {
  const refused = async (service: ReturnType<typeof aService>, request: object) => {
    await t.rejects(service.attempt(request), { code: 'invalid_credentials' });
    return { done: service.done, events: service.events };
  };
  t.strictSame(await refused(aService(), { username: 'bob' }), {
    done: ['find bob', 'verify dummy'],
    events: [{ event: 'login.failed', reason: 'unknown' }],
  });
  t.strictSame(await refused(aService(), { password: 'analytical engine' }), {
    done: ['find ada', 'verify old'],
    events: [{ event: 'login.failed', reason: 'password', userId: 1 }],
  });
  t.strictSame(await refused(aService({ disabled: true }), {}), {
    done: ['find ada', 'verify old'],
    events: [{ event: 'login.failed', reason: 'disabled', userId: 1 }],
  });
  // No name that anybody could have: still a hash.
  t.strictSame(await refused(aService(), { username: 'a b' }), {
    done: ['verify dummy'],
    events: [{ event: 'login.failed', reason: 'unknown' }],
  });
});

test('an account that is disabled between the password and the session opens none', async (t) => {
  const { tokens, events, done, attempt } = aService();
  const trying = attempt();
  tokens.disable(1);
  await t.rejects(trying, { code: 'invalid_credentials' });
  t.strictSame(done, ['find ada', 'verify old', 'now']);
  t.strictSame(events, [{ event: 'login.failed', reason: 'disabled', userId: 1 }]);
});

test('any text within bounds is a try, and what is not says where', async (t) => {
  const { attempt, done } = aService();
  for (const request of [{ username: 'u'.repeat(254) }, { password: 'p'.repeat(1024) }, { password: 'p' }])
    await t.rejects(attempt(request), { code: 'invalid_credentials' });
  done.length = 0;
  const refused: [object, { path: string; message: string }][] = [
    [{ username: 'u'.repeat(255) }, { path: '/username', message: 'must have at most 254 characters' }],
    [{ username: '' }, { path: '/username', message: 'must not be empty' }],
    [{ username: '\ud800' }, { path: '/username', message: 'must be well-formed Unicode' }],
    [{ password: 'p'.repeat(1025) }, { path: '/password', message: 'must have at most 1024 characters' }],
    [{ password: '' }, { path: '/password', message: 'must not be empty' }],
  ];
  for (const [request, error] of refused)
    await t.rejects(attempt(request), { code: 'validation_failed', errors: [error] });
  t.strictSame(done, [], 'nothing was looked up or hashed');
});

test('with the fast store away nothing is written', async (t) => {
  const { tokens, attempt } = aService({ away: 'now' });
  await t.rejects(attempt(), { code: 'unavailable' });
  t.strictSame(await tokens.list(1), []);
});

test('one session too many replaces the one unused for longest, which is refused from then on', async (t) => {
  const { clock, tokens, states, events, attempt } = aService({ maxSessions: 2 });
  const [oldest, other] = [await attempt(), await attempt()];
  events.length = 0;
  const newest = await attempt();
  t.strictSame(events, [
    { event: 'session.replaced', userId: 1, tokenId: oldest.tokenId, by: newest.tokenId },
    { event: 'session.created', userId: 1, tokenId: newest.tokenId },
  ]);
  const outcome = async (tokenId: number) =>
    (await states.checkAccess({ userId: 1, tokenId }, Infinity)).outcome;
  t.equal(await outcome(oldest.tokenId), 'revoked');
  t.equal(await outcome(other.tokenId), 'good');
  t.strictSame(await tokens.pending(10), []);

  // Those that have expired take no place.
  clock.pass(3_600_001);
  await attempt();
  t.equal((await tokens.list(1)).length, 3);
});

test('a replaced session whose tombstone cannot be set is left to the sweep', async (t) => {
  const { tokens, attempt } = aService({ maxSessions: 1, away: 'revoke' });
  const oldest = await attempt();
  t.match(await attempt(), { user: { id: 1 } }, 'the login has happened');
  t.strictSame(await tokens.pending(10), [{ userId: 1, tokenId: oldest.tokenId }]);

  for (const fault of [new TypeError('a fault'), new AuthError('invalid_token')]) {
    const broken = aService({ maxSessions: 1, away: 'revoke', fault });
    await broken.attempt();
    await t.rejects(broken.attempt(), fault);
  }
});

test('a hash of old parameters is renewed, once the session stands; others are left alone', async (t) => {
  const { done, attempt } = aService();
  await attempt();
  t.strictSame(done, [
    'find ada',
    'verify old',
    'now',
    'hash',
    `replace 1 old ${PASSWORD} by new ${PASSWORD}`,
  ]);
  done.length = 0;
  await attempt();
  t.strictSame(done, ['find ada', 'verify new', 'now']);
});

test('a login stands when its hash cannot be renewed, but a fault is a fault', async (t) => {
  for (const away of ['hash', 'replaceHash'] as const) {
    t.match(await aService({ away }).attempt(), { user: { id: 1 } });
    await t.rejects(aService({ away, fault: new TypeError('a fault') }).attempt(), { message: 'a fault' });
  }
});

test('passwords are compared and renewed in normal form', async (t) => {
  const { done, attempt } = aService();
  const password = PASSWORD.normalize('NFD');
  t.not(password, PASSWORD);
  t.match(await attempt({ password }), { user: { id: 1 } });
  t.ok(done.includes(`replace 1 old ${PASSWORD} by new ${PASSWORD}`));
});

for (const [age, replaced] of [
  [599, 1],
  [601, 0],
] as const) {
  test(`a session opened ${age} s ago, with SESSION_MAX_AGE=600: ${replaced} make room`, async (t) => {
    const { clock, events, attempt } = aService({ maxSessions: 1, maxAge: 600 });
    await attempt();
    clock.pass(age * 1000);
    await attempt();
    t.equal(events.filter(({ event }) => event === 'session.replaced').length, replaced);
  });
}
