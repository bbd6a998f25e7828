import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeFinishUserChange } from '../../../src/domain/users/finish-user-change.ts';
import { aFeed, published } from '../../support/feed.ts';
import { aUser } from '../../support/token.ts';

const user = aUser({ version: 3, roles: ['editor'] });

test('tells the fast store first, and then the feed', async (t) => {
  const feed = aFeed();
  const known: unknown[] = [];
  const putUser = async (changed: unknown) => {
    known.push(changed, await published(feed));
  };
  await makeFinishUserChange({ tokenStates: { putUser }, feed })(user);
  t.strictSame(known, [user, []]);
  t.strictSame(await published(feed), ['changed 7@3']);
});

test('fails if either cannot be told, and a repeat is safe', async (t) => {
  const feed = aFeed();
  const away = () => Promise.reject(new AuthError('unavailable'));
  const works = { putUser: () => Promise.resolve() };
  const parts = [
    { tokenStates: { putUser: away }, feed },
    { tokenStates: works, feed: { publishChanges: away } },
  ];
  for (const part of parts) await t.rejects(makeFinishUserChange(part)(user), { code: 'unavailable' });
  t.strictSame(await published(feed), []);
  const finish = makeFinishUserChange({ tokenStates: works, feed });
  await finish(user, 'disabled');
  await finish(user, 'disabled');
  t.strictSame(await published(feed), ['changed 7@3', 'disabled 7@3']);
});
