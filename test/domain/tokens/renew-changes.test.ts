import { test } from 'tap';
import type { UserChange } from '../../../src/domain/feed/ports.ts';
import { makeRenewChanges } from '../../../src/domain/tokens/renew-changes.ts';
import type { ChangedUser, ChangePosition } from '../../../src/domain/tokens/ports.ts';
import type { User } from '../../../src/domain/user.ts';
import { aClock } from '../../support/clock.ts';
import { aUser } from '../../support/token.ts';

const aChange = (id: number, isPending = false): ChangedUser => ({
  user: aUser({ id, version: 1 }),
  status: null,
  isPending,
});

/** Stores over two lists, and what was asked of them. */
function aRecord(changed: readonly ChangedUser[], late: readonly ChangedUser[] = []) {
  const asked: ([ago: number, after: ChangePosition | undefined] | number)[] = [];
  const steps: string[] = [];
  const ids = (users: readonly User[]) => users.map(({ id }) => id).join();
  const ports = {
    users: {
      changedSince: (ago: number, limit: number, after?: ChangePosition) => {
        asked.push([ago, after]);
        const begin = after?.id ?? 0;
        const changes = changed.slice(begin, begin + limit);
        const next = changes.length === limit ? { at: 5, id: begin + limit } : null;
        return Promise.resolve({ changes, next });
      },
      pendingChanges: (limit: number, after?: number) => {
        asked.push(after ?? 0);
        return Promise.resolve(late.filter(({ user }) => user.id > (after ?? 0)).slice(0, limit));
      },
      settleChanges: (users: readonly User[]) => {
        if (users.length > 0) steps.push(`settle ${ids(users)}`);
        return Promise.resolve();
      },
    },
    tokenStates: {
      putUsers: (users: readonly User[]) => {
        if (users.length > 0) steps.push(`set ${ids(users)}`);
        return Promise.resolve();
      },
    },
    feed: {
      publishChanges: (changes: readonly UserChange[]) => {
        if (changes.length > 0) steps.push(`publish ${changes.map(({ user }) => user.id).join()}`);
        return Promise.resolve();
      },
    },
    clock: aClock(),
  };
  return { ports, asked, steps };
}

test('a renewal publishes changed users after it has set them, and a replay publishes none', async (t) => {
  const { ports, steps } = aRecord([aChange(7, true), aChange(8)], [aChange(9, true)]);
  const renewals = makeRenewChanges(ports);
  await renewals.renew(7_200_000);
  t.strictSame(steps.splice(0), ['set 7,8', 'settle 7', 'set 9', 'settle 9']);
  await renewals.renewRecent();
  t.strictSame(steps, ['set 7,8', 'publish 7,8', 'settle 7', 'set 9', 'publish 9', 'settle 9']);
});

test('changed and pending users are read page by page', async (t) => {
  const all = Array.from({ length: 2000 }, (_, i) => aChange(i + 1));
  const { ports, asked, steps } = aRecord(all, all.slice(0, 1001));
  await makeRenewChanges(ports).renew(7_200_000);
  t.strictSame(asked, [
    [7_200_000, undefined],
    [7_200_000, { at: 5, id: 1000 }],
    [7_200_000, { at: 5, id: 2000 }],
    0,
    1000,
  ]);
  const set = steps.map((step) => step.slice('set '.length).split(',').length);
  t.strictSame(set, [1000, 1000, 1000, 1]);
});

test('after an outage one renewal covers the whole outage, and says until when', async (t) => {
  const { ports, asked } = aRecord([]);
  const { clock } = ports;
  let isAway = false;
  const renewals = makeRenewChanges({
    ...ports,
    tokenStates: { putUsers: () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve()) },
  });
  const start = clock.monotonic();
  t.equal(renewals.renewedUntil(), -Infinity, 'it has not looked yet');
  clock.pass(5000);
  await renewals.renewRecent();
  t.equal(renewals.renewedUntil(), start + 5000);
  isAway = true;
  for (let i = 0; i < 5; i++) {
    clock.pass(60_000);
    await t.rejects(renewals.renewRecent(), { message: 'away' });
  }
  t.equal(renewals.renewedUntil(), start + 5000);
  isAway = false;
  await renewals.renewRecent();
  clock.pass(1000);
  await renewals.renewRecent();
  const backs = asked.flatMap((each) => (Array.isArray(each) ? each[0] : []));
  t.strictSame(backs, [65_000, 120_000, 180_000, 240_000, 300_000, 360_000, 360_000, 61_000]);
});
