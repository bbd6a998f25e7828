import { test } from 'tap';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { LoginName } from '../../../src/domain/identifiers.ts';
import { makeResetRequests } from '../../../src/domain/mails/reset-requests.ts';
import type { GuessOrigin, KnownAccount } from '../../../src/domain/passwords/guessing-limits.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';

/** @param failing what the look-ups throw. */
function aQueue(failing: { with?: Error } = {}) {
  const wanted: LoginName[] = [];
  const known: boolean[] = [];
  const budgets: object[] = [];
  const account: KnownAccount = { userId: 7, knownCallers: ['home'] };
  let isAway = false;
  const clock = aClock();
  const queues = someQueues(clock);
  const { add, ...requests } = makeResetRequests({
    ...queues,
    clock,
    budget: (holder, _from, task) => {
      budgets.push(holder);
      return task();
    },
    mails: {
      check: () => (isAway ? Promise.reject(new AuthError('unavailable')) : Promise.resolve()),
      wantReset: (name, isKnown) => {
        if (failing.with) return Promise.reject(failing.with);
        wanted.push(name);
        known.push(isKnown(account));
        return Promise.resolve();
      },
    },
  });
  return {
    ...requests,
    /** @param from network and address. */
    add: (name: string, from = '192.0.2 1', by: Partial<GuessOrigin> = {}) => {
      const [network = '', address = ''] = from.split(' ');
      const origin = { fingerprints: [], token: null, network, ...by };
      return add(name, { turn: [network, address], origin, from: NO_REQUEST });
    },
    wanted,
    known,
    budgets,
    usernames: () => wanted.map((name) => ('username' in name ? name.username : '')),
    clock,
    queues,
    goAway: () => {
      isAway = true;
    },
  };
}

test('a request is answered before its name is looked up', async (t) => {
  const { add, work, size, wanted } = aQueue();
  for (const name of ['Ada', ' ADA', 'Ada@Example.com', 'no name', 'a@b@c']) await add(name);
  t.strictSame([wanted, size()], [[], 2], 'a name waits once, and one that no account can have not at all');
  await work();
  t.strictSame(wanted, [{ username: 'ada' }, { email: 'ada@example.com' }]);
  t.equal(size(), 0);
  await add('ada');
  t.equal(size(), 1, 'it may ask again');
});

test('look-ups take turns by network and address', async (t) => {
  const { add, work, size, usernames } = aQueue();
  for (const name of ['a1', 'a2', 'a3']) await add(name, 'a 1');
  await add('a4', 'a 2');
  await add('b1', 'b 1');
  await add('a3', 'b 1');
  t.equal(
    size(),
    6,
    'a name waits once for each network: a stranger does not decide when the owner has a turn',
  );
  await work(5);
  t.strictSame(usernames(), ['a1', 'b1', 'a4', 'a3', 'a2']);
});

test('a look-up decides whether the account knows the device that asked', async (t) => {
  const { add, work, size, known, budgets } = aQueue();
  const token = { userId: 7, tokenId: 3, type: 'refresh', withFactor: false } as const;
  const askers: Partial<GuessOrigin>[] = [
    { fingerprints: ['elsewhere'] },
    { fingerprints: ['new secret', 'home'] },
    { fingerprints: ['elsewhere'], token },
    { fingerprints: ['elsewhere'], token: { ...token, userId: 8, tokenId: 4 } },
    {},
  ];
  for (const asker of [...askers, ...askers]) await add('ada', undefined, asker);
  t.equal(size(), 5, 'those behind one address do not stand for each other');
  await work();
  t.strictSame(known, [false, true, true, false, false]);
  const ofNetwork = { network: '192.0.2' };
  t.strictSame(
    budgets.slice(0, 5),
    [ofNetwork, ofNetwork, { userId: 7 }, { userId: 8 }, ofNetwork],
    'a token takes a slot of its user, and none of its network',
  );
});

test('the queue holds 1,000 requests, and refuses every other name of their network alike', async (t) => {
  const { add, work, wanted, queues } = aQueue();
  for (let i = 0; i < 1000; i++) await add(`user${i}`);
  for (const name of ['another', 'user7', 'no name'])
    for (const from of ['192.0.2 1', '192.0.2 2'])
      await t.rejects(add(name, from), { code: 'overloaded', retryAfter: 1 }, `${name} from ${from}`);
  await work();
  t.equal(wanted.length, 1000);
  await add('another');
  t.strictSame(queues.dropped, { reset_requests: 2 });
});

test('in a full queue the newest of the greatest network gives way', async (t) => {
  const { add, work, size, usernames, queues } = aQueue();
  for (let i = 0; i < 600; i++) await add(`flood${i}`, `flood ${i}`);
  for (let i = 0; i < 400; i++) await add(`other${i}`, 'other 1');
  for (const name of ['ada', 'no name', 'ada']) await add(name, 'home 1');
  t.strictSame([size(), queues.dropped], [1000, { reset_requests: 1 }]);
  await t.rejects(add('grace', 'flood 601'), { code: 'overloaded' });
  await work(3);
  t.strictSame(usernames(), ['flood0', 'other0', 'ada']);
  await work();
  t.strictSame([usernames().length, usernames().includes('flood599')], [1000, false]);
});

test('while the database is away, requests are refused, and names are kept for five minutes', async (t) => {
  const failing: { with?: Error } = { with: new AuthError('unavailable') };
  const { add, work, size, wanted, goAway, clock, queues } = aQueue(failing);
  await add('ada');
  clock.pass(200_000);
  await add('grace');
  await t.rejects(work(), { code: 'unavailable' });
  t.equal(size(), 2);
  clock.pass(100_000);
  queues.goOff();
  t.strictSame([size(), queues.dropped], [1, { reset_requests: 1 }], 'a try makes no name younger');
  delete failing.with;
  await work();
  t.strictSame(wanted, [{ username: 'grace' }]);
  goAway();
  for (const name of ['ada', 'no name']) await t.rejects(add(name), { code: 'unavailable' });
});

test('a name that is asked for again while its look-up fails waits once', async (t) => {
  const failing: { with?: Error } = { with: new AuthError('unavailable') };
  const { add, work, size, usernames } = aQueue(failing);
  await add('ada');
  const failed = t.rejects(work(), { code: 'unavailable' });
  await add('ada');
  await failed;
  await add('bob');
  delete failing.with;
  await work();
  t.strictSame([usernames(), size()], [['ada', 'bob'], 0]);
});

test('a name that causes a bug is dropped, and holds up no other', async (t) => {
  const failing: { with?: Error } = { with: new Error('a bug') };
  const { add, work, size, wanted } = aQueue(failing);
  await add('ada');
  await add('grace');
  await t.rejects(work(), { message: 'a bug' });
  delete failing.with;
  await work();
  t.strictSame([wanted, size()], [[{ username: 'grace' }], 0]);
});
