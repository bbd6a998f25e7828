import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { makeChangeProfile } from '../../../src/domain/users/change-profile.ts';
import { makeNewNames } from '../../../src/domain/users/new-names.ts';
import type { OwnChanges } from '../../../src/domain/users/ports.ts';
import { aCaller } from '../../support/caller.ts';
import { makeSteps } from '../../support/steps.ts';
import { aUser } from '../../support/token.ts';

const user = aUser();
const PASSWORD = 'difference engine';

/** Ada, who asks with session 11. Bob's username is taken. */
function aService({ away = '', isChanged = true, isPending = false, refusal = null as Error | null } = {}) {
  const { done, step } = makeSteps(away);
  const events: AuditEvent[] = [];
  const limited: unknown[] = [];
  const changeProfile = makeChangeProfile({
    users: {
      findTaken: async (names, except) => {
        await step('find', JSON.stringify(names), except);
        return names.username === 'bob' ? ['username'] : [];
      },
      change: async ({ userId, tokenId, withFactor }, names, version) => {
        await step('change', userId, tokenId, withFactor, JSON.stringify(names), version);
        if (refusal) throw refusal;
        return { user: { ...user, ...names }, isChanged, isPending };
      },
    },
    confirmPassword: async (caller, password) => {
      await step('confirm', caller.tokenId, password);
      const secrets = { passwordHash: new Uint8Array(1), passwordVersion: 4, enabledAt: 0, knownCallers: [] };
      return { user, email: 'ada@example.com', ...secrets };
    },
    tokenStates: {
      now: async () => {
        await step('now');
        return 1;
      },
    },
    finishUserChange: ({ id, name }) => step('finish', id, name),
    newNames: makeNewNames(['admin']),
    budget: async ({ userId }, _from, task) => {
      await step('spend', userId);
      return task();
    },
    audit: (event) => events.push(event),
    auditLimit: (key, event) => limited.push([key, event]),
  });
  const attempt = (names: OwnChanges, currentPassword?: string) =>
    changeProfile(aCaller(user, 11), {
      names,
      currentPassword,
      from: NO_REQUEST,
      turn: ['192.0.2.0/24', '192.0.2.1'],
      origin: { fingerprints: [], token: null, network: null },
    });
  return { done, events, limited, attempt };
}

test('a new name takes no password and no second factor', async (t) => {
  const { done, events, attempt } = aService();
  t.strictSame(await attempt({ name: ' Countess ' }), { ...user, name: 'Countess' });
  t.strictSame(done, ['spend 7', 'now', 'change 7 11 null {"name":"Countess"} null', 'finish 7 Countess']);
  t.strictSame(events, [{ event: 'user.changed', userId: 7, by: 11, fields: 'name' }]);
});

test('a locale takes neither, in its canonical form, and null removes it', async (t) => {
  const { done, events, attempt } = aService();
  await attempt({ locale: 'PT-br' });
  await attempt({ locale: null });
  t.strictSame(
    done.filter((step) => step.startsWith('change')),
    ['change 7 11 null {"locale":"pt-BR"} null', 'change 7 11 null {"locale":null} null'],
  );
  t.match(events, [{ fields: 'locale' }, { fields: 'locale' }]);
});

test('a new username or address takes the password, which must still be the same at the change, and the factor', async (t) => {
  const { done, events, attempt } = aService();
  await attempt({ username: 'Countess', email: 'c@example.com' }, PASSWORD);
  const names = '{"username":"countess","email":"c@example.com"}';
  t.strictSame(done, [
    'spend 7',
    `confirm 11 ${PASSWORD}`,
    `find ${names} 7`,
    'now',
    `change 7 11 false ${names} 4`,
    'finish 7 Ada Lovelace',
  ]);
  t.match(events, [{ fields: 'username,email' }]);
});

test('an address that only became pending is a wish, and no change', async (t) => {
  const wish = aService({ isChanged: false, isPending: true });
  await wish.attempt({ email: 'c@example.com' }, PASSWORD);
  t.strictSame(wish.events, [{ event: 'email.change_requested', userId: 7, by: 11 }]);
  const both = aService({ isPending: true });
  await both.attempt({ username: 'countess', email: 'c@example.com' }, PASSWORD);
  t.match(both.events, [{ event: 'user.changed', fields: 'username' }, { event: 'email.change_requested' }]);
});

test('a wish beyond the limit of mails leaves one event of that limit', async (t) => {
  const refusal = new AuthError('rate_limited', { reason: 'mails', retryAfter: 5 });
  const { attempt, events, limited } = aService({ refusal });
  await t.rejects(attempt({ email: 'c@example.com' }, PASSWORD), refusal);
  const event = { event: 'limit.reached', limit: 'mails', windowSeconds: 3600, userId: 7 };
  t.strictSame([events, limited], [[], [['mails:7', event]]]);
  const taken = aService({ refusal: new AuthError('email_taken') });
  await t.rejects(taken.attempt({ email: 'c@example.com' }, PASSWORD), { code: 'email_taken' });
  t.strictSame(taken.limited, []);
});

test('a name that is taken is refused before anything is written', async (t) => {
  const { done, attempt } = aService();
  await t.rejects(attempt({ username: 'bob' }, PASSWORD), { code: 'username_taken' });
  t.match(done.at(-1), /^find/);
});

test('each field that is refused is named, and costs nothing', async (t) => {
  const { done, attempt } = aService();
  const required = {
    path: '/current_password',
    code: 'required',
    message: 'is required with username and email',
  };
  const expected: [Promise<unknown>, object[]][] = [
    [attempt({}), [{ path: '', code: 'required', message: 'must have name, username, email or locale' }]],
    [attempt({ locale: 'en_US', name: ' ' }), [{ path: '/name' }, { path: '/locale' }]],
    [attempt({ username: 'admin' }), [{ path: '/username' }, required]],
    [attempt({ email: 'c@example.com', name: 'Countess' }), [required]],
    [
      attempt({ name: 'Countess' }, 'p'.repeat(1025)),
      [{ path: '/current_password', message: 'must have at most 1024 characters' }],
    ],
  ];
  for (const [attempt, errors] of expected)
    await t.rejects(attempt, { code: 'validation_failed', errors }, JSON.stringify(errors));
  t.strictSame(done, []);
});

test('a password is measured in normal form, and checked as it was sent', async (t) => {
  const { done, attempt } = aService();
  const password = 'é'.repeat(1024).normalize('NFD');
  await attempt({ username: 'countess' }, password);
  t.equal(done[1], `confirm 11 ${password}`);
});

test('while the fast store is down, nothing is written', async (t) => {
  const { done, attempt } = aService({ away: 'now' });
  await t.rejects(attempt({ name: 'Countess' }), { code: 'unavailable' });
  t.equal(done.at(-1), 'now');
});

test('a repeat finishes what the first try could not, and is no second event', async (t) => {
  const first = aService({ away: 'finish' });
  await t.rejects(first.attempt({ name: 'Countess' }), { code: 'unavailable' });
  t.equal(first.events.length, 1);
  const repeat = aService({ isChanged: false });
  await repeat.attempt({ name: 'Countess' });
  t.equal(repeat.done.at(-1), 'finish 7 Countess');
  t.strictSame(repeat.events, []);
});
