import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import type { LoginName } from '../../../src/domain/identifiers.ts';
import { makeResetRequests } from '../../../src/domain/users/reset-requests.ts';

/** @param failing what the look-ups throw. */
function aQueue(failing: { with?: Error } = {}) {
  const wanted: LoginName[] = [];
  let isAway = false;
  const requests = makeResetRequests({
    mails: {
      check: () => (isAway ? Promise.reject(new AuthError('unavailable')) : Promise.resolve()),
      wantReset: (name) => {
        if (failing.with) return Promise.reject(failing.with);
        wanted.push(name);
        return Promise.resolve();
      },
    },
  });
  return {
    ...requests,
    wanted,
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

test('the queue holds 1,000 names, and refuses every other name alike', async (t) => {
  const { add, work, wanted } = aQueue();
  for (let i = 0; i < 1000; i++) await add(`user${i}`);
  for (const name of ['another', 'user7', 'no name'])
    await t.rejects(add(name), { code: 'overloaded', retryAfter: 1 });
  await work();
  t.equal(wanted.length, 1000);
  await add('another');
});

test('while the database is away, requests are refused and names are kept', async (t) => {
  const failing: { with?: Error } = { with: new AuthError('unavailable') };
  const { add, work, size, wanted, goAway } = aQueue(failing);
  await add('ada');
  await add('grace');
  await t.rejects(work(), { code: 'unavailable' });
  t.equal(size(), 2);
  delete failing.with;
  await work();
  t.equal(wanted.length, 2);
  goAway();
  for (const name of ['ada', 'no name']) await t.rejects(add(name), { code: 'unavailable' });
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
