import { test } from 'tap';
import type { FeedMessage } from '../src/feed-message.ts';
import type { Present } from '../src/introspect.ts';
import { makeLongLivedTokens } from '../src/long-lived-tokens.ts';
import type { VerifiedToken } from '../src/verified-token.ts';
import { deferred } from '../../../test/support/deferred.ts';

const aToken = (sid: number, userId = 7) => ({ sid, userId, tokenType: 'llt' }) as VerifiedToken;
const EDITOR = { roles: ['editor'], emailVerified: true };
const NOBODY = { roles: [], emailVerified: false };
const lists = { tokens: [], users: [], statuses: [] };
const snapshot: FeedMessage = { type: 'snapshot', ...lists, isLast: true, remember: 905 };
const changed = (userId: number): FeedMessage => ({
  type: 'user',
  event: { type: 'changed', userId, version: 3 },
});

function tokens(size = 100) {
  const revoked = new Set<number>();
  const world = { answer: (): Promise<Present> => Promise.resolve(EDITOR), revoked, used: [] as number[] };
  const longLived = makeLongLivedTokens({
    introspect: () => world.answer(),
    revocations: { includes: ({ sid }) => revoked.has(sid) },
    uses: { note: (sid) => world.used.push(sid) },
    size,
  });
  const learn = (message: FeedMessage) => {
    if (message.type === 'revoked') revoked.add(message.token);
    longLived.learn(message);
  };
  return { longLived, learn, world };
}

test('is cached once it was valid, for its user', async (t) => {
  const { longLived, world } = tokens();
  t.equal(longLived.known(aToken(11)), null);
  t.strictSame(await longLived.ask('token', aToken(11)), EDITOR);
  t.strictSame(longLived.known(aToken(11)), EDITOR);
  t.notOk(longLived.known(aToken(11, 8)));
  t.notOk(longLived.known(aToken(12)));
  t.strictSame(world.used, [11], 'Latchkey has not seen this use');
});

test('is not cached if it was not valid', async (t) => {
  const { longLived, world } = tokens();
  world.answer = () => Promise.reject(new Error('no'));
  await t.rejects(longLived.ask('token', aToken(11)), { message: 'no' });
  t.notOk(longLived.known(aToken(11)));
});

test('is forgotten when the feed names it or its user, or completes a snapshot', async (t) => {
  const { longLived, learn } = tokens();
  const known = () => [10, 11, 12, 13].filter((sid) => longLived.known(aToken(sid)));
  const askAll = () => Promise.all([10, 11, 12, 13].map((sid) => longLived.ask('token', aToken(sid))));
  await askAll();
  learn({ type: 'revoked', token: 11 });
  t.strictSame(known(), [10, 12, 13]);
  learn({ type: 'user_revoked', user: 8, before: 90 });
  t.strictSame(known(), [10, 12, 13]);
  learn({ type: 'user_revoked', user: 7, before: 12 });
  t.strictSame(known(), [13]);
  learn({ ...snapshot, isLast: false });
  learn({ type: 'heartbeat' });
  t.strictSame(known(), [13], 'not by part of a snapshot');
  learn(snapshot);
  t.strictSame(known(), []);
});

test('an answer is not cached if the feed names the token or its user meanwhile', async (t) => {
  for (const message of [{ type: 'revoked', token: 11 }, changed(7), snapshot] satisfies FeedMessage[]) {
    const { longLived, learn, world } = tokens();
    const answer = deferred<Present>();
    world.answer = () => answer.promise;
    const asking = longLived.ask('token', aToken(11));
    learn(message);
    answer.resolve(NOBODY);
    await asking;
    t.notOk(longLived.known(aToken(11)), message.type);
  }
});

test('an answer is cached if the feed names other tokens and users meanwhile', async (t) => {
  const { longLived, learn, world } = tokens();
  const answer = deferred<Present>();
  world.answer = () => answer.promise;
  const asking = longLived.ask('token', aToken(11));
  learn({ type: 'revoked', token: 12 });
  learn(changed(8));
  learn({ ...snapshot, isLast: false });
  answer.resolve(NOBODY);
  await asking;
  t.ok(longLived.known(aToken(11)));
});

test('is asked about again, with every token of its user, once the user has changed', async (t) => {
  const { longLived, learn, world } = tokens();
  for (const token of [aToken(11), aToken(12), aToken(13, 8)]) await longLived.ask('token', token);
  learn(changed(7));
  t.equal(longLived.known(aToken(11)), null);
  t.equal(longLived.known(aToken(12)), null);
  t.strictSame(longLived.known(aToken(13, 8)), EDITOR, 'not of other users');
  world.answer = () => Promise.resolve(NOBODY);
  t.strictSame(await longLived.ask('token', aToken(11)), NOBODY);
  t.strictSame(longLived.known(aToken(11)), NOBODY);
});

test('a request that failed is not waited for', async (t) => {
  const { longLived, learn, world } = tokens();
  world.answer = () => Promise.reject(new Error('no'));
  await t.rejects(longLived.ask('token', aToken(11)));
  learn(changed(7));
  world.answer = () => Promise.resolve(NOBODY);
  await longLived.ask('token', aToken(11));
  t.ok(longLived.known(aToken(11)));
});

test('is bounded, and evicts the least recently used token', async (t) => {
  const { longLived } = tokens(2);
  await longLived.ask('token', aToken(11));
  await longLived.ask('token', aToken(12));
  t.ok(longLived.known(aToken(11)));
  await longLived.ask('token', aToken(13));
  t.strictSame(
    [11, 12, 13].map((sid) => longLived.known(aToken(sid)) !== null),
    [true, false, true],
  );
  const none = tokens(0).longLived;
  await none.ask('token', aToken(11));
  t.notOk(none.known(aToken(11)));
});

test('an event about one user looks only at the tokens of this user', async (t) => {
  const { longLived, learn } = tokens(1000);
  for (let user = 1; user <= 300; user++) await longLived.ask('token', aToken(user, user));
  let looks = 0;
  const original = Map.prototype[Symbol.iterator];
  Map.prototype[Symbol.iterator] = function (this: Map<unknown, unknown>) {
    looks += this.size;
    return original.call(this);
  };
  t.teardown(() => (Map.prototype[Symbol.iterator] = original));
  learn(changed(7));
  learn({ type: 'user_revoked', user: 8, before: 90 });
  Map.prototype[Symbol.iterator] = original;
  t.ok(looks < 10, `${looks} entries`);
  t.strictSame(
    [6, 7, 8, 9].map((sid) => longLived.known(aToken(sid, sid)) !== null),
    [true, false, false, true],
  );
});

test('an evicted or replaced token leaves nothing behind for its user', async (t) => {
  const { longLived, learn } = tokens(1);
  await longLived.ask('token', aToken(11, 7));
  await longLived.ask('token', aToken(12, 8));
  learn(changed(7));
  t.ok(longLived.known(aToken(12, 8)));
  await longLived.ask('token', aToken(12, 9));
  learn(changed(8));
  t.ok(longLived.known(aToken(12, 9)), 'it is of another user now');
});
