import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { withPublishing } from '../../../src/domain/tokens/token-state-store.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { aFeed, published } from '../../support/feed.ts';

const aStore = () => makeMemoryTokenStates({ cacheTtl: 3600, now: () => Date.now() * 1000 });
const key = (tokenId: number) => ({ userId: 7, tokenId });

test('every ended token is published', async (t) => {
  const [store, feed] = [aStore(), aFeed()];
  const tokenStates = withPublishing(store, feed);
  await tokenStates.revoke(key(11));
  await tokenStates.revokeAll([key(12), key(13)]);
  await tokenStates.revoke(key(12));
  t.strictSame(await published(feed), ['7/11', '7/12', '7/13']);
  for (const id of [11, 12, 13]) t.match(await store.checkAccess(key(id), 1), { outcome: 'revoked' });
  t.match(
    await tokenStates.checkLongLived(key(14)),
    { outcome: 'missing' },
    'everything else passes through to the store',
  );
});

test('a theft missing from the record is published again once it is recorded', async (t) => {
  const [store, feed] = [aStore(), aFeed()];
  const tokenStates = withPublishing(store, feed);
  await tokenStates.revokeAll([key(11)], 'reused');
  t.match(await store.checkAccess(key(11), 1), { outcome: 'reused' });
  await tokenStates.revoke(key(11));
  t.strictSame(await published(feed), ['7/11', '7/11']);
});

test('no event is published before its tombstone is set', async (t) => {
  const feed = aFeed();
  const away = () => Promise.reject(new AuthError('unavailable'));
  const tokenStates = withPublishing({ ...aStore(), revoke: away, revokeAll: away }, feed);
  await t.rejects(tokenStates.revoke(key(11)), { code: 'unavailable' });
  await t.rejects(tokenStates.revokeAll([key(11)]), { code: 'unavailable' });
  await t.rejects(tokenStates.revokeAll([key(11)], 'reused'), { code: 'unavailable' });
  t.strictSame(await published(feed), []);
});

test('if the event cannot be published, the revocation fails', async (t) => {
  const away = () => Promise.reject(new AuthError('unavailable'));
  const tokenStates = withPublishing(aStore(), { publish: away, publishUnrecorded: away });
  await t.rejects(tokenStates.revoke(key(11)), { code: 'unavailable' });
  await t.rejects(tokenStates.revokeAll([key(11)]), { code: 'unavailable' });
});
