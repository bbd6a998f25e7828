import { test } from 'tap';
import type { FeedMessage } from '../../src/verifier/feed-message.ts';
import { makeLongLivedTokens } from '../../src/verifier/long-lived-tokens.ts';
import type { VerifiedToken } from '../../src/verifier/verified-token.ts';
import { deferred } from '../support/deferred.ts';

const aToken = (sid: number, userId = 7) => ({ sid, userId, tokenType: 'llt' }) as VerifiedToken;
const snapshot: FeedMessage = { type: 'snapshot', tokens: [], users: [], isLast: true, remember: 905 };

function tokens(size = 100) {
  const revoked = new Set<number>();
  const world = { answer: (): Promise<void> => Promise.resolve(), revoked };
  const longLived = makeLongLivedTokens({
    introspect: () => world.answer(),
    revocations: { includes: ({ sid }) => revoked.has(sid) },
    size,
  });
  const learn = (message: FeedMessage) => {
    if (message.type === 'revoked') revoked.add(message.token);
    longLived.learn(message);
  };
  return { longLived, learn, world };
}

test('is cached once it was valid, for its user', async (t) => {
  const { longLived } = tokens();
  t.notOk(longLived.isKnown(aToken(11)));
  await longLived.ask('token', aToken(11));
  t.ok(longLived.isKnown(aToken(11)));
  t.notOk(longLived.isKnown(aToken(11, 8)));
  t.notOk(longLived.isKnown(aToken(12)));
});

test('is not cached if it was not valid', async (t) => {
  const { longLived, world } = tokens();
  world.answer = () => Promise.reject(new Error('no'));
  await t.rejects(longLived.ask('token', aToken(11)), { message: 'no' });
  t.notOk(longLived.isKnown(aToken(11)));
});

test('is forgotten when the feed names it or its user, or completes a snapshot', async (t) => {
  const { longLived, learn } = tokens();
  const known = () => [10, 11, 12, 13].filter((sid) => longLived.isKnown(aToken(sid)));
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

test('an answer is not cached if the feed names the token meanwhile', async (t) => {
  for (const message of [{ type: 'revoked', token: 11 }, snapshot] satisfies FeedMessage[]) {
    const { longLived, learn, world } = tokens();
    const answer = deferred<undefined>();
    world.answer = () => answer.promise;
    const asking = longLived.ask('token', aToken(11));
    learn(message);
    answer.resolve(undefined);
    await asking;
    t.notOk(longLived.isKnown(aToken(11)), message.type);
  }
});

test('an answer is cached if the feed names other tokens meanwhile', async (t) => {
  const { longLived, learn, world } = tokens();
  const answer = deferred<undefined>();
  world.answer = () => answer.promise;
  const asking = longLived.ask('token', aToken(11));
  learn({ type: 'revoked', token: 12 });
  learn({ ...snapshot, isLast: false });
  answer.resolve(undefined);
  await asking;
  t.ok(longLived.isKnown(aToken(11)));
});

test('is bounded, and evicts the least recently used token', async (t) => {
  const { longLived } = tokens(2);
  await longLived.ask('token', aToken(11));
  await longLived.ask('token', aToken(12));
  t.ok(longLived.isKnown(aToken(11)));
  await longLived.ask('token', aToken(13));
  t.strictSame(
    [11, 12, 13].map((sid) => longLived.isKnown(aToken(sid))),
    [true, false, true],
  );
  const none = tokens(0).longLived;
  await none.ask('token', aToken(11));
  t.notOk(none.isKnown(aToken(11)));
});
