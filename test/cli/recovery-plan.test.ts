import { test } from 'tap';
import { planRecovery, readSkipIds, requireKnownEnds } from '../../src/cli/recovery-plan.ts';

test('the next id is above every id that either store knows', (t) => {
  const skip = 20;
  for (const redis of [0, 100, 119, 120]) {
    const { users, tokens } = planRecovery({ users: 100, tokens: 100 }, { users: 0, tokens: redis }, skip);
    t.strictSame([users.after, tokens], [120, { postgres: 100, redis, after: 120 }]);
  }
  for (const redis of [
    { users: 121, tokens: 0 },
    { users: 0, tokens: 121 },
  ])
    t.throws(() => planRecovery({ users: 100, tokens: 100 }, redis, skip), {
      message: /--skip-ids 41\. Nothing/,
      facts: { ids: { users: { redis: redis.users } } },
    });
  t.end();
});

test('ended sessions could be good again if Redis may have forgotten an end, and there is one to come back', (t) => {
  const now = Date.parse('2026-11-26T12:00:00Z');
  const ends = { newest: now - 7_200_000, sessions: 1, longLived: 0, limit: 7_200_000, hasTokens: true };
  requireKnownEnds(ends, now, 'state');
  requireKnownEnds({ ...ends, newest: 0, sessions: 0, hasTokens: false }, now, 'state');
  t.throws(
    () => {
      requireKnownEnds(ends, now + 1, 'state');
    },
    {
      message:
        /of the 1 sessions and 0 .+ at 2026-11-26T10:00:00\.000Z, 2 h 0 min ago.+ for 2 h 0 min .+state$/s,
      facts: { newest: '2026-11-26T10:00:00.000Z', limit: 7200, sessions: 1, long_lived: 0 },
    },
  );
  t.throws(
    () => {
      requireKnownEnds({ ...ends, newest: now, hasTokens: false }, now, 'state');
    },
    {
      message: /Redis holds no token/,
    },
  );
  t.throws(
    () => {
      requireKnownEnds({ ...ends, newest: 0, sessions: 0, longLived: 1 }, now, 'state');
    },
    {
      message: /no record of a session/,
      facts: { newest: null },
    },
  );
  t.end();
});

test('ids stay below 2^53', (t) => {
  const [none, skip] = [{ users: 0, tokens: 0 }, readSkipIds(String(Number.MAX_SAFE_INTEGER))];
  t.equal(planRecovery(none, none, skip).users.after, Number.MAX_SAFE_INTEGER);
  t.throws(() => planRecovery({ users: 0, tokens: 1 }, none, skip), { message: /2\^53/ });
  t.throws(() => readSkipIds(String(2 ** 53)));
  t.end();
});

test('the number of ids to leave out is a whole number above 0', (t) => {
  t.equal(readSkipIds('20000000'), 20_000_000);
  for (const value of ['0', '-1', 'x', '1.5', '1e9', ''])
    t.throws(() => readSkipIds(value), { message: /above 0/ }, value);
  t.end();
});
