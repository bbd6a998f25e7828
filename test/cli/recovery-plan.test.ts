import { test } from 'tap';
import { planRecovery, readSkipIds } from '../../src/cli/recovery-plan.ts';

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
