import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { Guess, GuessOrigin } from '../../../src/domain/passwords/guessing-limits.ts';
import { normalisePassword } from '../../../src/domain/passwords/policy.ts';
import { makeLogIn } from '../../../src/domain/sessions/log-in.ts';
import { makeOpenSession } from '../../../src/domain/sessions/open-session.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { openLimits } from '../../support/open-limits.ts';
import { aUser } from '../../support/token.ts';

const PASSWORD = 'différence engine';
const OLD = Buffer.from(`old ${PASSWORD}`);

/** The steps of a new hash. */
const RENEWED = ['hash', `replace 1 old ${PASSWORD} by new ${PASSWORD}`];

const ORIGIN: GuessOrigin = { fingerprints: ['home'], token: null, network: null };

interface Given {
  isKnown?: boolean;
  disabled?: boolean;
  maxSessions?: number;
  /** SESSION_MAX_AGE in seconds; 0 for none. */
  maxAge?: number;
  codesLeft?: number;
  hasTotp?: boolean;
  /** Whether the account was deleted after the password was checked. */
  isGone?: boolean;
  /** The step that answers 503. */
  away?: 'hash' | 'replaceHash' | 'revoke' | 'now' | 'limit' | 'factors';
  fault?: Error;
}

/** Ada, whose password is a différence engine with an old hash, and all calls that a login makes. */
function aService({
  isKnown = false,
  disabled = false,
  maxSessions = 100,
  maxAge = 0,
  codesLeft = 10,
  hasTotp = true,
  isGone = false,
  away,
  fault,
}: Given = {}) {
  const clock = aClock();
  const ada = aUser({ id: 1, disabled });
  const tokens = makeMemoryTokenStore([ada]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const events: AuditEvent[] = [];
  const done: string[] = [];
  const turns: string[] = [];
  const step = async (name: string, isAway = false) => {
    done.push(name);
    if (isAway) throw fault ?? new AuthError('unavailable');
    return Promise.resolve();
  };
  const account = {
    user: ada,
    passwordHash: OLD as Uint8Array,
    passwordVersion: 0,
    enabledAt: 0,
    knownCallers: ['work'],
  };
  const guesses: Guess[] = [];
  const limits = openLimits(events);
  const audit = (event: AuditEvent) => events.push(event);
  const openSession = makeOpenSession({
    tokens,
    revocations: tokens,
    tokenStates: {
      preparePut: async (userId) => {
        await step('now', away === 'now');
        return tokenStates.preparePut(userId);
      },
      put: (...args) => tokenStates.put(...args),
      revoke: async (key) => {
        await step(`bury ${key.tokenId}`, away === 'revoke');
        return tokenStates.revoke(key);
      },
    },
    lifetimes: { accessToken: 900, refreshToken: 3600, session: maxAge },
    maxSessions,
    audit,
  });
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
    factors: {
      findAccount: async (userId) => {
        await step('find factors', away === 'factors');
        if (isGone) return null;
        const factor = { userId, passwordVersion: 0, disabled, enabledAt: 0, knownCallers: [] };
        const totp = { id: 3, sealed: { keyId: '', secret: new Uint8Array() }, lastStep: 0 };
        const passkeys = { all: 0, usable: 0 };
        return { ...factor, totp: hasTotp ? totp : null, passkeys, codesLeft, hasCode: false };
      },
    },
    loginTokens: { issue: (proof) => JSON.stringify(proof) },
    openSession,
    limitGuess: async (guess, check) => {
      guesses.push(guess);
      if (away === 'limit') throw fault ?? new AuthError('rate_limited', { reason: 'account' });
      const result = await limits.limitGuess(guess, () => check(isKnown, 2));
      if (!guess.takesNoSlot) done.push('right');
      return result;
    },
    hasher: {
      hash: async (password) => {
        await step('hash', away === 'hash');
        return Buffer.from(`new ${password}`);
      },
      isOutdated: (hash) => Buffer.from(hash).toString().startsWith('old'),
    },
    bulkhead: {
      run: (share, [, address], work) => {
        turns.push(`run, ${share}, ${address}`);
        return work();
      },
    },
    checkPassword: async ({ hash, password, earlier, mayOpen, share, turn }) => {
      if (earlier !== 2) throw new Error('the limits counted 2');
      const text = hash === null ? 'nothing' : Buffer.from(hash).toString();
      turns.push(`check, ${share}, ${turn[1]}`);
      await step(`check ${text.split(' ', 1).join()}${hash && !mayOpen ? ', which may not open' : ''}`);
      return text.endsWith(` ${normalisePassword(password)}`);
    },
    clock,
    audit,
    auditHash: (name) => `#${name}`,
  });
  const attempt = (request: Partial<Parameters<typeof logIn>[0]> = {}) =>
    logIn({
      username: 'ada',
      password: PASSWORD,
      device: 'Firefox',
      caller: 'home',
      turn: ['192.0.2.0/24', '192.0.2.1'] as const,
      origin: ORIGIN,
      from: NO_REQUEST,
      ...request,
    });
  return { clock, ada, tokens, tokenStates, events, done, guesses, turns, openSession, attempt };
}

test('a login opens a session, in the record and in the fast store', async (t) => {
  const { clock, ada, tokens, tokenStates, events, attempt } = aService();
  const grant = await attempt({ username: ' ADA ' });
  t.match(grant, { user: ada, createdAt: clock.now() });
  const key = { userId: 1, tokenId: grant.tokenId };
  t.match(await tokenStates.checkAccess(key, grant.generation), {
    outcome: 'good',
    confirmed: { caller: 'home' },
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

test('every failure: one look-up, one password check, the same answer', async (t) => {
  const refused = async (service: ReturnType<typeof aService>, request: object) => {
    const refusal: unknown = await service.attempt(request).catch((error: unknown) => error);
    const { code, reason } = refusal as AuthError;
    t.match({ code, events: service.events }, { code: 'invalid_credentials', events: [{ reason }] });
    return { done: service.done, events: service.events };
  };
  t.strictSame(await refused(aService(), { username: 'bob' }), {
    done: ['find bob', 'check nothing'],
    events: [{ event: 'login.failed', reason: 'unknown', nameHash: '#bob' }],
  });
  t.strictSame(await refused(aService(), { password: 'analytical engine' }), {
    done: ['find ada', 'check old'],
    events: [{ event: 'login.failed', reason: 'password', userId: 1 }],
  });
  t.strictSame(await refused(aService({ disabled: true }), {}), {
    done: ['find ada', 'check old, which may not open'],
    events: [{ event: 'login.failed', reason: 'disabled', userId: 1 }],
  });
  // No account can have this name; the password is still checked.
  t.strictSame(await refused(aService(), { username: 'a b' }), {
    done: ['check nothing'],
    events: [{ event: 'login.failed', reason: 'unknown', nameHash: '#a b' }],
  });
});

test('checks and renewals wait in the turn of the caller, and those of a known device in its share', async (t) => {
  for (const isKnown of [true, false]) {
    const { turns, attempt } = aService({ isKnown });
    await attempt();
    t.strictSame(turns, [`check, ${isKnown ? 'known' : 'login'}, 192.0.2.1`, 'run, known, 192.0.2.1']);
  }
});

test('an account disabled between password check and session opens none', async (t) => {
  const { tokens, events, done, attempt } = aService();
  const trying = attempt();
  tokens.disable(1);
  await t.rejects(trying, { code: 'invalid_credentials' });
  t.strictSame(done, ['find ada', 'check old', 'right', 'now']);
  t.strictSame(events, [{ event: 'login.failed', reason: 'disabled', userId: 1 }]);
});

test('nor does one that is disabled and enabled again', async (t) => {
  const { clock, tokens, events, attempt } = aService();
  const trying = attempt();
  tokens.enable(1, clock.now());
  await t.rejects(trying, { code: 'invalid_credentials' });
  t.strictSame(events, [{ event: 'login.failed', reason: 'password', userId: 1 }]);
});

test('a password changed between password check and session opens none', async (t) => {
  const { tokens, events, done, attempt } = aService();
  const trying = attempt();
  tokens.changePassword(1);
  await t.rejects(trying, { code: 'invalid_credentials' });
  t.strictSame(done, ['find ada', 'check old', 'right', 'now']);
  t.strictSame(events, [{ event: 'login.failed', reason: 'password', userId: 1 }]);
  t.strictSame(await tokens.list(1), []);

  for (const fault of [new TypeError('a fault'), new AuthError('unavailable')]) {
    const broken = aService();
    broken.tokens.addSession = () => Promise.reject(fault);
    await t.rejects(broken.attempt(), fault);
    t.strictSame(broken.events, []);
  }
});

test('what no account can have is refused with its field', async (t) => {
  const { attempt, done } = aService();
  for (const path of ['username', 'password'])
    await t.rejects(attempt({ [path]: '' }), {
      code: 'validation_failed',
      errors: [{ path: `/${path}`, message: 'must not be empty' }],
    });
  t.strictSame(done, [], 'nothing was looked up or hashed');
});

test('if the fast store is down, nothing is written', async (t) => {
  const { tokens, attempt } = aService({ away: 'now' });
  await t.rejects(attempt(), { code: 'unavailable' });
  t.strictSame(await tokens.list(1), []);
});

test('one session too many replaces the least recently used one, which is refused from then on', async (t) => {
  const { clock, tokens, tokenStates, events, attempt } = aService({ maxSessions: 2 });
  const [oldest, other] = [await attempt(), await attempt()];
  events.length = 0;
  const newest = await attempt();
  t.strictSame(events, [
    { event: 'session.replaced', userId: 1, tokenId: oldest.tokenId, by: newest.tokenId },
    { event: 'session.created', userId: 1, tokenId: newest.tokenId },
  ]);
  const outcome = async (tokenId: number) =>
    (await tokenStates.checkAccess({ userId: 1, tokenId }, Infinity)).outcome;
  t.equal(await outcome(oldest.tokenId), 'revoked');
  t.equal(await outcome(other.tokenId), 'good');
  t.strictSame(await tokens.pending(10), []);

  // Expired sessions take no place.
  clock.pass(3_600_001);
  await attempt();
  t.equal((await tokens.list(1)).length, 3);
});

test('a replaced session whose tombstone cannot be set is left to the sweep', async (t) => {
  const { tokens, attempt } = aService({ maxSessions: 1, away: 'revoke' });
  const oldest = await attempt();
  t.match(await attempt(), { user: { id: 1 } }, 'the login succeeded');
  t.strictSame(await tokens.pending(10), [{ userId: 1, tokenId: oldest.tokenId }]);

  for (const fault of [new TypeError('a fault'), new AuthError('invalid_token', { reason: 'gone' })]) {
    const broken = aService({ maxSessions: 1, away: 'revoke', fault });
    await broken.attempt();
    await t.rejects(broken.attempt(), fault);
  }
});

test('a hash with old parameters is renewed after the session opens; others stay', async (t) => {
  const { done, attempt } = aService();
  await attempt();
  t.strictSame(done, ['find ada', 'check old', 'right', 'now', ...RENEWED]);
  done.length = 0;
  await attempt();
  t.strictSame(done, ['find ada', 'check new', 'right', 'now']);
});

test('an account with a second factor is asked for it, which is no failure of the password', async (t) => {
  for (const [given, methods] of [
    [{}, ['totp', 'recovery_code']],
    [{ codesLeft: 0 }, ['totp']],
    [{ hasTotp: false }, ['recovery_code']],
  ] as const) {
    const { clock, tokens, events, done, attempt } = aService(given);
    tokens.addFactor(1);
    const refusal: unknown = await attempt().catch((error: unknown) => error);
    const issuedAt = clock.now();
    const { code, secondStep } = refusal as AuthError;
    t.strictSame(
      { code, secondStep },
      {
        code: 'second_factor_required',
        secondStep: {
          loginToken: JSON.stringify({ userId: 1, passwordVersion: 0, enabledAt: 0, issuedAt }),
          methods,
          expiresAt: issuedAt + 300_000,
        },
      },
    );
    t.strictSame(done, ['find ada', 'check old', 'right', 'now', 'find factors', ...RENEWED]);
    t.strictSame(events, [{ event: 'login.factor_asked', userId: 1 }]);
    t.strictSame(await tokens.list(1), []);
    await t.rejects(attempt({ password: 'analytical engine' }), { code: 'invalid_credentials' });
  }
  const { tokens, attempt } = aService({ isGone: true });
  tokens.addFactor(1);
  await t.rejects(attempt(), { code: 'invalid_credentials' }, 'deleted meanwhile');
});

test('a session that a factor opened says so', async (t) => {
  const { tokens, events, openSession } = aService();
  tokens.addFactor(1);
  const password = { userId: 1, passwordVersion: 0, enabledAt: 0 };
  const origin = { fingerprints: ['home'], token: null };
  const login = { password, device: 'Phone', caller: 'home', origin, from: NO_REQUEST };
  const grant = await openSession({ ...login, factor: { type: 'totp', factorId: 3, step: 5 } });
  t.match(grant, { acr: 'mfa' });
  t.strictSame(events, [{ event: 'session.created', userId: 1, tokenId: grant?.tokenId, method: 'totp' }]);
  const plain = aService();
  t.match(await plain.openSession({ ...login, factor: null }), { acr: null });
});

test('a factor that is added between password check and session is asked for too', async (t) => {
  const { tokens, attempt } = aService();
  const trying = attempt();
  tokens.addFactor(1);
  await t.rejects(trying, { code: 'second_factor_required' });
  t.strictSame(await tokens.list(1), []);
});

test('if the factors cannot be read, the login opens no session', async (t) => {
  const { tokens, events, attempt } = aService({ away: 'factors' });
  tokens.addFactor(1);
  await t.rejects(attempt(), { code: 'unavailable' });
  t.strictSame([events, await tokens.list(1)], [[], []]);
});

test('a login succeeds if its hash cannot be renewed, but a bug surfaces', async (t) => {
  for (const away of ['hash', 'replaceHash'] as const) {
    t.match(await aService({ away }).attempt(), { user: { id: 1 } });
    await t.rejects(aService({ away, fault: new TypeError('a fault') }).attempt(), { message: 'a fault' });
  }
});

test('a password is renewed in normal form', async (t) => {
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

test('every try is limited by its canonical name, and by the account’s known devices', async (t) => {
  const account = { userId: 1, knownCallers: ['work'] };
  const expected: [string, Omit<Guess, 'failure'>][] = [
    [' ADA ', { name: 'ada', account, origin: ORIGIN, from: NO_REQUEST }],
    ['Bob', { name: 'bob', account: null, origin: ORIGIN, from: NO_REQUEST }],
    ['A b', { name: 'a b', account: null, origin: ORIGIN, from: NO_REQUEST }],
    [' Bob@Example.com', { name: 'bob@example.com', account: null, origin: ORIGIN, from: NO_REQUEST }],
  ];
  for (const [username, guess] of expected) {
    const { guesses, attempt } = aService();
    await attempt({ username }).catch(() => undefined);
    t.match(guesses[0], guess);
  }
});

test('a try beyond the limit computes no hash', async (t) => {
  const { done, events, attempt } = aService({ away: 'limit' });
  await t.rejects(attempt(), { code: 'rate_limited' });
  t.strictSame(done, ['find ada']);
  t.strictSame(events, []);
});
