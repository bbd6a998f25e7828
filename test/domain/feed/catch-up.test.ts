import { test } from 'tap';
import { makeCatchUp, PAGE } from '../../../src/domain/feed/catch-up.ts';
import type { UserStatusAt } from '../../../src/domain/feed/ports.ts';
import type { FeedMessage } from '../../../src/domain/feed/reader.ts';
import { aFeed } from '../../support/feed.ts';

const key = (tokenId: number) => ({ userId: 7, tokenId });
const keysFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => key(first + i));

/** A feed, and a record that lists revocations and users. */
function aWorld(tokens: () => number[] | Promise<number[]> = () => [], statuses: UserStatusAt[] = []) {
  const feed = aFeed();
  const reasons: string[] = [];
  const asked: number[] = [];
  const catchUp = makeCatchUp({
    feed,
    record: {
      within: async (seconds) => {
        asked.push(seconds);
        return { tokens: await tokens(), statuses };
      },
    },
    remember: 905,
    observe: { feedSnapshot: (reason) => reasons.push(reason) },
  });
  return { feed, catchUp, reasons, asked };
}

const tokensOf = (parts: FeedMessage[][]) =>
  parts.flat().flatMap((message) => (message.type === 'snapshot' ? message.tokens : []));

test('a reader without a position gets every relevant revocation, and the position after them', async (t) => {
  const { feed, catchUp, reasons, asked } = aWorld(() => [11, 12]);
  await feed.publish([key(12)]);
  const { epoch } = await feed.read(0, 0);
  const position = { epoch, seq: 1 };
  t.strictSame(await catchUp.step(null, 'new'), {
    parts: [[{ type: 'snapshot', tokens: [11, 12], users: [], statuses: [], remember: 905, position }]],
    position,
    isLast: false,
  });
  t.strictSame(reasons, ['new']);
  t.ok((asked[0] ?? 0) > 905, 'somewhat more than the required period');
});

test('an empty snapshot has one part, a large one has many, and the last part has the position', async (t) => {
  for (const [count, sizes] of [
    [0, [0]],
    [5000, [5000]],
    [5001, [5000, 1]],
    [12_000, [5000, 5000, 2000]],
  ] as const) {
    const ids = Array.from({ length: count }, (_, i) => i + 1);
    const { parts, position } = await aWorld(() => ids).catchUp.step(null, 'new');
    const snapshots = parts.flat();
    t.strictSame(
      parts.map((part) => tokensOf([part]).length),
      sizes,
    );
    t.strictSame(tokensOf(parts), ids);
    t.strictSame(
      snapshots.map((message) => message.position),
      [...sizes.slice(1).map(() => null), position],
    );
  }
});

test('a snapshot holds all users with a new status, however few tokens are revoked', async (t) => {
  const statuses = Array.from({ length: 5001 }, (_, i): UserStatusAt => ({
    userId: i + 1,
    status: 'disabled',
    version: 1,
  }));
  const { parts, position } = await aWorld(() => [11], statuses).catchUp.step(null, 'new');
  const snapshots = parts.flat().flatMap((message) => (message.type === 'snapshot' ? [message] : []));
  t.strictSame(
    snapshots.flatMap((part) => part.statuses),
    statuses,
  );
  t.strictSame(
    snapshots.map((part) => [part.tokens, part.position]),
    [
      [[11], null],
      [[], position],
    ],
  );
});

test('a token revoked while the record is read appears in the snapshot or after it', async (t) => {
  // The token is committed and published between the two steps; in either order of the steps it must not be lost.
  const recorded = [11];
  const { feed, catchUp } = aWorld(async () => {
    await feed.publish([key(12)]);
    return [...recorded];
  });
  await feed.publish([key(11)]);
  const { parts, position } = await catchUp.step(null, 'new');
  t.strictSame(tokensOf(parts), [11], 'read before 12 was recorded');
  const next = await catchUp.step(position, 'epoch');
  t.match(next.parts, [[{ event: { tokenId: 12 } }]]);
});

test('a reader with a position gets the events after it, page by page', async (t) => {
  const { feed, catchUp, reasons } = aWorld();
  await feed.publish(keysFrom(1, PAGE + 2));
  const { epoch } = await feed.read(0, 0);
  const first = await catchUp.step({ epoch, seq: 1 }, 'new');
  t.equal(first.parts.flat().length, PAGE);
  t.match(first, { position: { epoch, seq: PAGE + 1 }, isLast: false });
  const second = await catchUp.step(first.position, 'epoch');
  const position = { epoch, seq: PAGE + 2 };
  const event = { seq: PAGE + 2, type: 'revoked', tokenId: PAGE + 2, userId: 7 };
  t.strictSame(second, { parts: [[{ type: 'event', event, position }]], position, isLast: true });
  t.strictSame(await catchUp.step(position, 'epoch'), { parts: [], position, isLast: true });
  t.strictSame(reasons, []);
});

test('a position that is trimmed, in the future or of another epoch counts as none', async (t) => {
  const { feed, catchUp, reasons } = aWorld(() => [11]);
  await feed.publish([key(11)]);
  const { epoch } = await feed.read(0, 0);
  for (const position of [
    { epoch: 'another', seq: 1 },
    { epoch, seq: 2 },
  ]) {
    const step = await catchUp.step(position, 'new');
    t.strictSame(tokensOf(step.parts), [11]);
    t.strictSame(step.position, { epoch, seq: 1 });
  }
  await feed.publish(keysFrom(100, 300_000));
  const { parts } = await catchUp.step({ epoch, seq: 1 }, 'new');
  t.strictSame(tokensOf(parts), [11]);
  t.strictSame(reasons, ['epoch', 'trimmed', 'trimmed']);
});

test('concurrent readers share one query of the record', async (t) => {
  const { catchUp, asked, reasons } = aWorld(() => [11]);
  const steps = await Promise.all([1, 2, 3].map(() => catchUp.step(null, 'new')));
  t.equal(asked.length, 1);
  t.equal(steps[0]?.parts, steps[2]?.parts, 'they share the parts too');
  t.equal(reasons.length, 3);
  await catchUp.step(null, 'new');
  t.equal(asked.length, 2, 'a later reader queries again');
});

test('later readers do not share a failed query', async (t) => {
  let isAway = true;
  const { catchUp } = aWorld(() => {
    if (isAway) throw new Error('away');
    return [11];
  });
  await t.rejects(catchUp.step(null, 'new'), { message: 'away' });
  isAway = false;
  t.strictSame(tokensOf((await catchUp.step(null, 'new')).parts), [11]);
});
