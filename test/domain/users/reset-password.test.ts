import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import type { Guess } from '../../../src/domain/passwords/guessing-limits.ts';
import { hashOneTimeToken } from '../../../src/domain/passwords/one-time-token.ts';
import { usedSince } from '../../../src/domain/tokens/claims.ts';
import { makeResetPassword } from '../../../src/domain/users/reset-password.ts';
import { aClock } from '../../support/clock.ts';
import { openLimits } from '../../support/open-limits.ts';
import { makeSteps, newPasswordPorts } from '../../support/steps.ts';
import type { User } from '../../../src/domain/user.ts';
import { aLongLived, aUser, LIFETIMES } from '../../support/token.ts';

const TOKEN = 'lkr_secret';
const ORIGIN = { fingerprints: ['home'], token: null, network: '192.0.2.0/24' };
const ADA = { userId: 7, username: 'ada', name: 'Ada Lovelace', email: 'ada@example.com' };

/** Ada, who has a reset token, a long-lived token that is live and one that has expired. */
function aService({
  away,
  before = 13,
  usedMeanwhile = false,
  proved = null,
}: { away?: string; before?: number | null; usedMeanwhile?: boolean; proved?: User | null } = {}) {
  const clock = aClock();
  const steps = makeSteps(away);
  const { done, step } = steps;
  const events: AuditEvent[] = [];
  const guesses: Guess[] = [];
  const has = (presented: Uint8Array) => hashOneTimeToken(TOKEN).equals(presented);
  const resetPassword = makeResetPassword({
    ...newPasswordPorts(steps),
    passwords: {
      findReset: (presented) => Promise.resolve(has(presented) ? ADA : null),
      redeem: async (presented, { passwordHash, at, usedSince: since }) => {
        await step('redeem', Buffer.from(passwordHash), at, since);
        return has(presented) && !usedMeanwhile
          ? { userId: 7, proved, before, ended: [aLongLived(), aLongLived({ id: 13, expiresAt: at })] }
          : null;
      },
    },
    tokenStates: {
      now: async () => {
        await step('now');
        return clock.micros();
      },
    },
    finishEndings: (...ended) => step('finish', ...ended),
    finishUserChange: ({ id }) => step('tell', id),
    limitGuess: (guess, check) => {
      guesses.push(guess);
      return openLimits(events).limitGuess(guess, check);
    },
    lifetimes: LIFETIMES,
    clock,
    audit: (event) => events.push(event),
  });
  return {
    clock,
    done,
    events,
    guesses,
    attempt: (password = 'difference engine', resetToken = TOKEN) =>
      resetPassword({
        resetToken,
        password,
        origin: ORIGIN,
        from: NO_REQUEST,
        turn: ['192.0.2.0/24', '192.0.2.1'],
      }),
  };
}

const RESET: AuditEvent = { event: 'password.reset', userId: 7, tokenIds: [12] };

test('a reset sets the password, ends every token and reports those that were live', async (t) => {
  const { clock, done, events, guesses, attempt } = aService();
  await attempt();
  t.strictSame(done, [
    'hash known 192.0.2.0/24 192.0.2.1',
    'now',
    `redeem hash of difference engine ${clock.now()} ${usedSince(clock.now(), LIFETIMES)}`,
    'finish 7 13',
  ]);
  t.strictSame(events, [RESET]);
  // The commit of a good token takes no slot of its network.
  t.match(guesses, [{ name: null, account: null, origin: ORIGIN }, { takesNoSlot: true }]);
  t.notOk(guesses[0]?.takesNoSlot);
  const other = aService({ before: null });
  await other.attempt();
  t.equal(other.done.at(-1), 'finish 7 0', 'without a mark, a token may be good');
});

test('a reset that was mailed proves the address, and the replicas hear of it', async (t) => {
  const { done, events, attempt } = aService({ proved: aUser() });
  await attempt();
  t.strictSame(done.slice(-2), ['finish 7 13', 'tell 7']);
  t.strictSame(events, [RESET, { event: 'email.verified', userId: 7 }]);
});

test('a token that is not good costs no hash', async (t) => {
  const { done, events, attempt } = aService();
  await t.rejects(attempt(undefined, 'lkr_guess'), { code: 'invalid_reset_token' });
  t.strictSame(done, []);
  t.strictSame(events, [{ event: 'password.reset_failed' }]);
});

test('a token that another request uses up meanwhile resets nothing', async (t) => {
  const { done, events, attempt } = aService({ usedMeanwhile: true });
  await t.rejects(attempt(), { code: 'invalid_reset_token' });
  t.match(done.at(-1), /^redeem/);
  t.strictSame(events, [{ event: 'password.reset_failed' }]);
});

test('a refused password does not use the token up', async (t) => {
  const { done, attempt } = aService();
  await t.rejects(attempt('short'), {
    code: 'validation_failed',
    errors: [{ path: '/password', message: 'must have at least 8 characters' }],
  });
  for (const guessable of ['password', 'ada lovelace'])
    await t.rejects(attempt(guessable), { code: 'password_refused', errors: [{ path: '/password' }] });
  t.strictSame(done, []);
});

test('while the fast store is down, no token is used up', async (t) => {
  const { done, events, attempt } = aService({ away: 'now' });
  await t.rejects(attempt(), { code: 'unavailable' });
  t.equal(done.at(-1), 'now');
  t.strictSame(events, []);
});

test('a reset is reported even if the fast store cannot be told what has ended', async (t) => {
  const { events, attempt } = aService({ away: 'finish' });
  await t.rejects(attempt(), { code: 'unavailable' });
  t.strictSame(events, [RESET]);
});
