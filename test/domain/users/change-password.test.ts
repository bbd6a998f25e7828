import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { usedSince } from '../../../src/domain/tokens/claims.ts';
import { makeChangePassword, type PasswordChangeRequest } from '../../../src/domain/users/change-password.ts';
import { aCaller } from '../../support/caller.ts';
import { aClock } from '../../support/clock.ts';
import { makeSteps, newPasswordPorts } from '../../support/steps.ts';
import { aLongLived, aUser, LIFETIMES } from '../../support/token.ts';

const user = aUser();

/** Ada, who asks with session 11. Its other tokens: a live one, and one that has expired. */
function aService(away?: string) {
  const clock = aClock();
  const steps = makeSteps(away);
  const { done, step } = steps;
  const events: AuditEvent[] = [];
  const changePassword = makeChangePassword({
    ...newPasswordPorts(steps),
    confirmPassword: async (caller, password) => {
      await step('confirm', caller.tokenId, password);
      const secrets = { passwordHash: new Uint8Array(1), passwordVersion: 4, enabledAt: 0, knownCallers: [] };
      return { user, email: 'countess@example.com', ...secrets };
    },
    passwords: {
      change: async (
        { userId, tokenId, withFactor },
        { passwordHash, version, at, usedSince: since, keepsLongLived },
      ) => {
        await step('change', userId, tokenId, withFactor, Buffer.from(passwordHash), version);
        await step('end', at, since, keepsLongLived ? 'sessions' : 'all');
        return [aLongLived(), aLongLived({ id: 13, expiresAt: at })];
      },
    },
    tokenStates: {
      now: async () => {
        await step('now');
        return clock.micros();
      },
    },
    finishEndings: (...ended) => step('finish', ...ended),
    lifetimes: LIFETIMES,
    clock,
    audit: (event) => events.push(event),
  });
  const attempt = (request: Partial<PasswordChangeRequest> = {}) =>
    changePassword(aCaller(user, 11), {
      currentPassword: 'difference engine',
      newPassword: 'analytical engine',
      endsLongLived: false,
      turn: ['192.0.2.0/24', '192.0.2.1'],
      from: NO_REQUEST,
      origin: { fingerprints: [], token: null, network: null },
      ...request,
    });
  return { clock, done, events, attempt };
}

const CHANGED: AuditEvent = { event: 'password.changed', userId: 7, by: 11, tokenIds: [12] };

test('a change replaces the confirmed password, and counts and reports the live tokens that end', async (t) => {
  const { clock, done, events, attempt } = aService();
  t.equal(await attempt(), 1);
  t.strictSame(done, [
    'confirm 11 difference engine',
    'hash known 192.0.2.0/24 192.0.2.1',
    'now',
    'change 7 11 false hash of analytical engine 4',
    `end ${clock.now()} ${usedSince(clock.now(), LIFETIMES)} sessions`,
    'finish 7 0',
  ]);
  t.strictSame(events, [CHANGED]);
});

test('long-lived tokens end too if the request says so', async (t) => {
  const { done, attempt } = aService();
  await attempt({ endsLongLived: true });
  t.match(done.at(-2), /^end .* all$/);
});

test('passwords out of bounds are refused together, before any is checked', async (t) => {
  const { done, attempt } = aService();
  await t.rejects(attempt({ currentPassword: 'p'.repeat(1025), newPassword: 'short' }), {
    code: 'validation_failed',
    errors: [
      { path: '/current_password', message: 'must have at most 1024 characters' },
      { path: '/new_password', message: 'must have at least 8 characters' },
    ],
  });
  t.strictSame(done, []);
});

test('a current password is measured in normal form, and checked as it was sent', async (t) => {
  const { done, attempt } = aService();
  const currentPassword = 'é'.repeat(1024).normalize('NFD');
  await attempt({ currentPassword });
  t.equal(done[0], `confirm 11 ${currentPassword}`);
});

test('only who knows the password learns that the new one is the owner’s address', async (t) => {
  const newPassword = 'countess@example.com';
  const { done, attempt } = aService();
  await t.rejects(attempt({ newPassword }), {
    code: 'password_refused',
    errors: [{ path: '/new_password' }],
  });
  t.strictSame(done, ['confirm 11 difference engine']);
  await t.rejects(aService('confirm').attempt({ newPassword }), { code: 'unavailable' });
});

test('while the fast store is down, nothing is written', async (t) => {
  const { done, events, attempt } = aService('now');
  await t.rejects(attempt(), { code: 'unavailable' });
  t.equal(done.at(-1), 'now');
  t.strictSame(events, []);
});

test('a change is reported even if the fast store cannot be told what has ended', async (t) => {
  const { events, attempt } = aService('finish');
  await t.rejects(attempt(), { code: 'unavailable' });
  t.strictSame(events, [CHANGED]);
});
