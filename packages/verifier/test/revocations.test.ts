import { test } from 'tap';
import type { FeedMessage } from '../src/feed-message.ts';
import { makeRevocations } from '../src/revocations.ts';
import { aClock } from '../../../test/support/clock.ts';

const REMEMBER = 900;
const TOLERANCE = 5;
/** A clock that is behind by the tolerance accepts a token for that much longer. */
const KEPT = REMEMBER + 2 * TOLERANCE;

function aSnapshot(tokens: number[] = [], overrides: object = {}): FeedMessage {
  return {
    type: 'snapshot',
    tokens,
    users: [],
    statuses: [],
    isLast: true,
    remember: REMEMBER,
    ...overrides,
  };
}

function known() {
  const clock = aClock();
  const revocations = makeRevocations(clock, TOLERANCE);
  revocations.connected();
  return {
    clock,
    revocations,
    learn: (...messages: FeedMessage[]) => {
      for (const each of messages) revocations.learn(each);
    },
  };
}

const token = (sid: number, userId = 7) => ({ sid, userId });
const revoked = (id: number): FeedMessage => ({ type: 'revoked', token: id });
const beat: FeedMessage = { type: 'heartbeat' };

test('knows the tokens named by a snapshot or event, and no others', (t) => {
  const { revocations, learn } = known();
  learn(aSnapshot([11, 12]), revoked(13));
  t.strictSame(
    [10, 11, 12, 13, 14].map((sid) => revocations.includes(token(sid))),
    [false, true, true, true, false],
  );
  t.end();
});

test('a user’s floor covers that user’s tokens up to it, and the higher of two counts', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot([], { users: [{ user: 7, before: 90 }] }));
  const covered = () =>
    [token(89), token(90), token(91), token(90, 8)].map((each) => revocations.includes(each));
  t.strictSame(covered(), [true, true, false, false]);
  clock.pass(400_000);
  learn({ type: 'user_revoked', user: 7, before: 80 });
  t.strictSame(covered(), [true, true, false, false]);
  learn({ type: 'user_revoked', user: 7, before: 91 });
  t.strictSame(covered(), [true, true, true, false]);
  t.end();
});

test('a snapshot adds to the known revocations', (t) => {
  const { revocations, learn } = known();
  learn(aSnapshot([11]), aSnapshot([12]));
  t.ok(revocations.includes(token(11)));
  t.ok(revocations.includes(token(12)));
  t.end();
});

test('keeps a revocation for the announced time plus twice the tolerance, and not much longer', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot([10]));
  // The bucket is about to close: nothing but the time itself keeps the next ones.
  clock.pass(56_000);
  learn(revoked(11), { type: 'user_revoked', user: 8, before: 20 });
  t.equal(revocations.coveredAge(), REMEMBER + TOLERANCE, 'a snapshot looks back for no longer');
  clock.pass(KEPT * 1000 - 1);
  learn(beat);
  t.ok(revocations.includes(token(11)));
  t.ok(revocations.includes(token(20, 8)));
  clock.pass((KEPT * 1000) / 16 + 1);
  learn(beat);
  t.notOk(revocations.includes(token(11)));
  t.notOk(revocations.includes(token(20, 8)));
  t.equal(revocations.size(), 0);
  t.end();
});

test('a repeated revocation is kept once, with a new expiry', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot([11], { users: [{ user: 8, before: 20 }] }));
  for (let i = 0; i < 3; i++) {
    clock.pass(400_000);
    learn(aSnapshot([11], { users: [{ user: 8, before: 20 }] }));
    t.equal(revocations.size(), 2);
  }
  t.ok(revocations.includes(token(11)));
  t.ok(revocations.includes(token(20, 8)));
  t.end();
});

test('keeps revocations that follow a longer announced time for that time', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot([11]), aSnapshot([12], { remember: 2 * REMEMBER }));
  clock.pass(1.5 * REMEMBER * 1000);
  learn(beat);
  t.ok(revocations.includes(token(12)));
  t.notOk(revocations.includes(token(11)));
  t.end();
});

test('of a million revocations it keeps those within an access token’s lifetime', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot());
  const [count, everyMs] = [1_000_000, 20];
  const bound = ((KEPT * 1000) / everyMs) * (17 / 16) + 2;
  let largest = 0;
  for (let id = 1; id <= count; id++) {
    clock.pass(everyMs);
    learn(id % 10 === 0 ? { type: 'user_revoked', user: id, before: id } : revoked(id));
    if (id % 1000 === 0) largest = Math.max(largest, revocations.size());
  }
  t.ok(largest <= bound, `${largest} at most, ${Math.round(bound)} are allowed`);
  t.ok(largest > bound * 0.9, 'and keeps all that are needed');
  t.ok(revocations.includes(token(count - 1)));
  t.notOk(revocations.includes(token(1)));
  t.end();
});

test('staleness counts from the last heartbeat, because an event may be old', (t) => {
  const { revocations, learn, clock } = known();
  t.equal(revocations.staleness(), Infinity);
  learn(aSnapshot());
  t.equal(revocations.staleness(), 0);
  clock.pass(2000);
  learn(revoked(11));
  t.equal(revocations.staleness(), 2);
  learn(beat);
  t.equal(revocations.staleness(), 0);
  t.end();
});

test('a snapshot counts once it is complete, and is as old as its first part', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot([11], { isLast: false }));
  t.equal(revocations.staleness(), Infinity);
  t.ok(revocations.includes(token(11)), 'but the tokens it names are refused at once');
  clock.pass(1000);
  learn(beat);
  t.equal(revocations.staleness(), Infinity, 'a heartbeat does not complete a snapshot');
  learn(aSnapshot([12]));
  t.equal(revocations.staleness(), 1);
  learn(beat);
  t.equal(revocations.staleness(), 0);
  t.end();
});

test('while a later snapshot arrives, the old one counts, and ages', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot([11]), beat);
  clock.pass(1000);
  learn(aSnapshot([12], { isLast: false }));
  clock.pass(1000);
  learn(beat);
  t.equal(revocations.staleness(), 2);
  t.ok(revocations.includes(token(11)));
  learn(aSnapshot([13]));
  t.equal(revocations.staleness(), 1);
  t.end();
});

test('an interrupted snapshot does not affect the next connection', (t) => {
  const { revocations, learn, clock } = known();
  learn(aSnapshot());
  learn(aSnapshot([], { isLast: false }));
  clock.pass(5000);
  revocations.connected();
  learn(beat);
  t.equal(revocations.staleness(), 0);
  t.end();
});

test('the heartbeat of another connection does not complete a snapshot', (t) => {
  const { revocations, learn } = known();
  learn(aSnapshot([], { isLast: false }));
  revocations.connected();
  learn(beat);
  t.equal(revocations.staleness(), Infinity);
  t.end();
});

test('a suspended machine is stale although its monotonic clock stood still', (t) => {
  let [now, monotonic] = [1_795_000_000_000, 0];
  const revocations = makeRevocations({ now: () => now, monotonic: () => monotonic }, TOLERANCE);
  revocations.learn(aSnapshot());
  now += 3_600_000;
  t.equal(revocations.staleness(), 3600);
  now -= 7_200_000;
  monotonic += 1000;
  t.equal(revocations.staleness(), 1, 'and setting the wall clock back makes nothing fresh');
  t.end();
});
