import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { withPublishing } from '../../../src/domain/feed/publishing.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aFeed, published } from '../../support/feed.ts';

const aStore = () => makeMemorySessionState({ cacheTtl: 3600, now: () => Date.now() * 1000 });
const key = (tokenId: number) => ({ userId: 7, tokenId });

test('whatever is ended is published', async (t) => {
  const [store, feed] = [aStore(), aFeed()];
  const states = withPublishing(store, feed);
  await states.revoke(key(11));
  await states.revokeAll([key(12), key(13)]);
  t.strictSame(await published(feed), ['7/11', '7/12', '7/13']);
  for (const id of [11, 12, 13]) t.match(await store.checkAccess(key(id), 1), { outcome: 'revoked' });
  t.match(await states.checkLongLived(key(14)), { outcome: 'missing' }, 'all else is the store as it is');
});

test('a theft that the record does not know is published again when it does', async (t) => {
  const [store, feed] = [aStore(), aFeed()];
  const states = withPublishing(store, feed);
  await states.revokeAll([key(11)], 'reused');
  t.match(await store.checkAccess(key(11), 1), { outcome: 'reused' });
  await states.revoke(key(11));
  t.strictSame(await published(feed), ['7/11', '7/11']);
});

test('nothing is published before its tombstone stands', async (t) => {
  const feed = aFeed();
  const away = () => Promise.reject(new AuthError('unavailable'));
  const states = withPublishing({ ...aStore(), revoke: away, revokeAll: away }, feed);
  await t.rejects(states.revoke(key(11)), { code: 'unavailable' });
  await t.rejects(states.revokeAll([key(11)]), { code: 'unavailable' });
  await t.rejects(states.revokeAll([key(11)], 'reused'), { code: 'unavailable' });
  t.strictSame(await published(feed), []);
});

test('a revocation that cannot be published is not said to be done', async (t) => {
  const away = () => Promise.reject(new AuthError('unavailable'));
  const states = withPublishing(aStore(), { publish: away, publishUnrecorded: away });
  await t.rejects(states.revoke(key(11)), { code: 'unavailable' });
  await t.rejects(states.revokeAll([key(11)]), { code: 'unavailable' });
});
