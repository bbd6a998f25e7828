import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeHashCosts } from '../../../src/domain/passwords/hash-costs.ts';
import { aClock } from '../../support/clock.ts';

const TEN_MINUTES = 600_000;

/** Accounts by id; each hash is the name of its cost. `beyond` cannot be computed. */
function someCosts(accounts: Record<number, string>) {
  const clock = aClock();
  const pages: string[] = [];
  const changes: string[] = [];
  let isAway = false;
  const costs = makeHashCosts({
    hasher: {
      cost: 'today',
      costOf: (hash) => {
        const cost = Buffer.from(hash).toString();
        return cost === 'beyond' ? null : cost;
      },
    },
    samples: {
      sampleHashes: (after) => {
        if (isAway) return Promise.reject(new AuthError('unavailable'));
        const ids = Object.keys(accounts)
          .map(Number)
          .filter((id) => id > after)
          .slice(0, 2);
        pages.push(ids.join());
        return Promise.resolve(
          ids.reverse().map((userId) => ({ userId, passwordHash: Buffer.from(accounts[userId] ?? '') })),
        );
      },
    },
    clock,
    onChange: (all) => changes.push(all.join()),
  });
  return {
    costs,
    clock,
    pages,
    changes,
    away: (value: boolean) => {
      isAway = value;
    },
  };
}

test('a walk through all accounts finds every cost, page by page', async (t) => {
  const { costs, pages, changes } = someCosts({ 1: 'today', 2: 'old', 5: 'old', 9: 'beyond', 10: 'older' });
  t.strictSame(costs.all(), ['today']);
  for (let i = 0; i < 4; i++) await costs.step();
  t.strictSame(pages, ['1,2', '5,9', '10', '']);
  t.strictSame([...costs.all()].sort(), ['old', 'older', 'today']);
  t.strictSame(changes, ['today,old', 'today,old,older'], 'each change is reported once');
});

test('after a walk it pauses, and the next walk forgets unused costs', async (t) => {
  const accounts: Record<number, string> = { 1: 'old' };
  const { costs, clock, pages, changes } = someCosts(accounts);
  await costs.step();
  await costs.step();
  accounts[1] = 'beyond';
  clock.pass(TEN_MINUTES - 1);
  await costs.step();
  t.strictSame(pages, ['1', '']);
  t.strictSame(costs.all(), ['today', 'old']);
  clock.pass(1);
  await costs.step();
  t.strictSame(costs.all(), ['today', 'old'], 'nothing is forgotten before the walk ends');
  await costs.step();
  t.strictSame(costs.all(), ['today']);
  t.strictSame(changes, ['today,old', 'today']);
});

test('a cost met by a login counts at once, and the current walk keeps it', async (t) => {
  const { costs, changes } = someCosts({ 1: 'today' });
  await costs.step();
  costs.note(Buffer.from('imported'));
  costs.note(Buffer.from('imported'));
  costs.note(Buffer.from('beyond'));
  t.strictSame(costs.all(), ['today', 'imported']);
  await costs.step();
  t.strictSame(costs.all(), ['today', 'imported']);
  t.strictSame(changes, ['today,imported']);
});

test('while the database is down nothing is forgotten, and the walk resumes', async (t) => {
  const { costs, pages, away } = someCosts({ 1: 'old', 2: 'today', 3: 'older' });
  await costs.step();
  away(true);
  await t.rejects(costs.step(), { code: 'unavailable' });
  t.strictSame(costs.all(), ['today', 'old']);
  away(false);
  await costs.step();
  t.strictSame(pages, ['1,2', '3']);
});
