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
    leases: { isThere: () => true, hasFeed: () => true },
    clock: aClock(),
  };
  return { ports, asked, steps };
}

/** The lease of one master, with a full renewal of tombstones that reaches so far back. */
const held = (since: number, master = 'm', server = 'one') => new Map([[master, { since, server }]]);

test('what a holder renews is published after it has been set, and what is pending by whoever sets it', async (t) => {
  const { ports, steps } = aRecord([aChange(7, true), aChange(8)], [aChange(9, true)]);
  const changes = makeRenewChanges(ports);
  await changes.renew(7_200_000);
  t.strictSame(steps.splice(0), ['set 7,8', 'set 9', 'publish 9', 'settle 9']);
  await changes.renewHeld(held(0));
  t.strictSame(steps.splice(0), ['set 7,8', 'publish 7,8']);
  await changes.sweep();
  t.strictSame(steps, ['set 9', 'publish 9', 'settle 9']);
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
  const set = steps.flatMap((step) => (step.startsWith('set ') ? step.split(',').length : []));
  t.strictSame(set, [1000, 1000, 1000, 1]);
});

test('without a lease nothing is renewed; a holder sets its own users, and publishes all if it has the feed', async (t) => {
  const { ports, asked, steps } = aRecord([aChange(7), aChange(8)]);
  const leases = {
    isThere: (master: string, userId: number) => master === (userId === 7 ? 'm' : 'n'),
    hasFeed: (master: string) => master === 'm',
  };
  const changes = makeRenewChanges({ ...ports, leases });
  await changes.renewHeld(new Map());
  t.strictSame(asked, []);
  await changes.renewHeld(held(0, 'n'));
  t.strictSame(steps.splice(0), ['set 8']);
  t.same(changes.renewedOn('m', 'one'), null);
  await changes.renewHeld(held(0, 'm'));
  t.strictSame(steps.splice(0), ['set 7', 'publish 7,8']);
  t.same(changes.renewedOn('n', 'one'), null, 'the lease is gone');
});

test('a holder renews what is new, and in full whenever tombstones are; after an outage, all of it', async (t) => {
  const { ports, asked } = aRecord([]);
  const { clock } = ports;
  let isAway = false;
  let delay = 0;
  const changes = makeRenewChanges({
    ...ports,
    users: {
      ...ports.users,
      async changedSince(...args) {
        const page = await ports.users.changedSince(...args);
        clock.pass(delay);
        return page;
      },
    },
    tokenStates: { putUsers: () => (isAway ? Promise.reject(new Error('away')) : Promise.resolve()) },
  });
  const backs = () => asked.splice(0).flatMap((each) => (Array.isArray(each) ? each[0] : []));
  const start = clock.monotonic();
  const first = held(start - 60_000);
  await changes.renewHeld(first);
  t.match(changes.renewedOn('m', 'one'), { since: start - 60_000, until: start });
  clock.pass(250);
  await changes.renewHeld(first);
  t.strictSame(backs(), [60_000, 1000]);
  t.match(changes.renewedOn('m', 'one'), { since: start - 60_000, until: start + 250 });
  isAway = true;
  for (let i = 0; i < 2; i++) {
    clock.pass(60_000);
    await t.rejects(changes.renewHeld(first), { message: 'away' });
  }
  isAway = false;
  await changes.renewHeld(first);
  t.strictSame(backs(), [60_750, 120_750, 120_750]);
  const second = held(clock.monotonic() - 90_000);
  await changes.renewHeld(second);
  delay = 400;
  await changes.renewHeld(second);
  t.strictSame(changes.renewedOn('m', 'one'), null, 'it read too late to know that nothing is missing');
  delay = 0;
  await changes.renewHeld(second);
  t.strictSame(backs(), [90_000, 750, 90_400]);
});

test('full renewals of tombstones do not shorten what users have to make up for', async (t) => {
  const { ports, asked } = aRecord([aChange(7)]);
  const { clock } = ports;
  let isAway = true;
  let duration = 0;
  const putUsers = () => {
    clock.pass(duration);
    return isAway ? Promise.reject(new Error('away')) : Promise.resolve();
  };
  const changes = makeRenewChanges({ ...ports, tokenStates: { putUsers } });
  const back = () =>
    asked
      .splice(0)
      .flatMap((each) => (Array.isArray(each) ? each[0] : []))
      .at(-1);
  const full = () => held(clock.monotonic() - 60_000);
  const failFor = async (minutes: number) => {
    for (let i = 0; i < minutes; i++) {
      await t.rejects(changes.renewHeld(full()), { message: 'away' });
      clock.pass(60_000);
    }
  };
  const start = clock.monotonic();
  await failFor(3);
  t.same(changes.renewedOn('m', 'one'), null);
  isAway = false;
  await changes.renewHeld(full());
  t.equal(back(), 240_000, 'it has failed since the takeover');
  t.match(changes.renewedOn('m', 'one'), { since: start - 60_000 });

  isAway = true;
  await failFor(3);
  isAway = false;
  duration = 200_000;
  await changes.renewHeld(full());
  t.equal(back(), 240_000, 'it had worked before');
  duration = 0;
  await changes.renewHeld(full());
  t.equal(back(), 260_000, 'the one before took long');
});

test('what was renewed on another server of a master says nothing of this one', async (t) => {
  const { ports } = aRecord([]);
  const { clock } = ports;
  const changes = makeRenewChanges(ports);
  await changes.renewHeld(held(clock.monotonic() - 60_000));
  clock.pass(100_000);
  t.same(changes.renewedOn('m', 'two'), null);
  await changes.renewHeld(held(clock.monotonic() - 60_000, 'm', 'two'));
  t.same(changes.renewedOn('m', 'one'), null);
  t.match(changes.renewedOn('m', 'two'), { since: clock.monotonic() - 160_000 });
});
