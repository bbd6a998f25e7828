import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'tap';
import type { FeedMessage, UserEvent } from '../src/feed-message.ts';
import { makeTellOfUsers } from '../src/tell-of-users.ts';
import { reportOnce } from '../src/report-once.ts';
import { deferred } from '../../../test/support/deferred.ts';

const event = (userId: number): UserEvent => ({ type: 'changed', userId, version: 2 });
const message = (userId: number): FeedMessage => ({ type: 'user', event: event(userId) });
const snapshot = (...userIds: number[]): FeedMessage => ({
  type: 'snapshot',
  tokens: [],
  users: [],
  statuses: userIds.map(event),
  isLast: true,
  remember: 905,
});

test('tells of users one after the other, those of a snapshot too', async (t) => {
  const told: number[] = [];
  const first = deferred<null>();
  const tell = makeTellOfUsers(
    async ({ userId }) => {
      told.push(userId);
      if (told.length === 1) await first.promise;
    },
    () => undefined,
  );
  for (const each of [snapshot(6, 7), message(8), message(7)]) tell(each);
  await turn();
  t.strictSame(told, [6]);
  first.resolve(null);
  await turn();
  t.strictSame(told, [6, 7, 8, 7]);
});

test('a listener that fails stops nothing, and is reported until it works again', async (t) => {
  const [told, errors]: [number[], Error[]] = [[], []];
  const tell = makeTellOfUsers(
    ({ userId }) => {
      told.push(userId);
      if (userId === 7) throw new TypeError('a name');
      return userId === 8 ? Promise.reject(new RangeError('a name')) : null;
    },
    reportOnce((error) => errors.push(error)),
  );
  for (const userId of [7, 7, 8, 9, 7]) tell(message(userId));
  await turn();
  t.strictSame(told, [7, 7, 8, 9, 7]);
  t.strictSame(
    errors.map(({ message: text }) => text),
    ['onUser failed (TypeError)', 'onUser failed (RangeError)', 'onUser failed (TypeError)'],
  );
  t.match(errors[0], { reason: 'fault' });
});
