import { test, type Test } from 'tap';
import type { FeedPosition, RevocationFeed } from '../../src/domain/feed/ports.ts';
import { eventText, published } from '../support/feed.ts';
import { until } from '../support/until.ts';

/** One implementation, and a way to let time pass for it. */
export interface FeedUnderTest {
  feed: RevocationFeed;
  /** The feed of another replica. */
  other: RevocationFeed;
  pass: (seconds: number) => Promise<void>;
}

/** Approximate number of events that the feeds under test keep. */
export const KEPT = 400;

const key = (tokenId: number, userId = 7) => ({ userId, tokenId });
const keysFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => key(first + i));

/** The contract of every RevocationFeed. */
export function revocationFeedContract(
  name: string,
  open: (t: Test) => FeedUnderTest | Promise<FeedUnderTest>,
  skip: false | string = false,
): void {
  const contract = (sentence: string, run: (t: Test, under: FeedUnderTest) => Promise<void>) => {
    test(`${name}: ${sentence}`, { skip }, async (t) => {
      await run(t, await open(t));
    });
  };

  contract('every replica reads published events, numbered and in order', async (t, { feed, other }) => {
    const empty = await feed.read(0, 10);
    t.match(empty, { last: 0, events: [] });
    t.equal((await other.read(0, 10)).epoch, empty.epoch, 'all replicas share one epoch');
    await feed.publish([key(11), key(12, 8)]);
    await other.publish([key(13)]);
    t.strictSame(await feed.read(0, 10), {
      epoch: empty.epoch,
      last: 3,
      events: [
        { seq: 1, type: 'revoked', tokenId: 11, userId: 7 },
        { seq: 2, type: 'revoked', tokenId: 12, userId: 8 },
        { seq: 3, type: 'revoked', tokenId: 13, userId: 7 },
      ],
    });
    t.match(await other.read(2, 10), { last: 3, events: [{ seq: 3 }] });
    t.match(await other.read(0, 2), { last: 3, events: [{ seq: 1 }, { seq: 2 }] });
    t.match(await feed.read(3, 10), { last: 3, events: [] });
    t.match(await feed.read(Number.MAX_SAFE_INTEGER, 0), { last: 3, events: [] });
  });

  contract('adds no event twice within two minutes, from any replica', async (t, { feed, other, pass }) => {
    await feed.publish([key(11)]);
    await pass(100);
    await other.publish([key(12), key(11), key(12)]);
    t.strictSame(await published(feed), ['7/11', '7/12']);
    await pass(30);
    await other.publish([key(11), key(12)]);
    t.strictSame(await published(feed), ['7/11', '7/12', '7/11']);
  });

  contract('does not confuse two tokens', async (t, { feed }) => {
    await feed.publish([key(23, 1), key(3, 12)]);
    await feed.publishUser({ userId: 1, before: 23 }, []);
    t.strictSame(await published(feed), ['1/23', '12/3', '1<=23']);
  });

  contract('keeps the largest ids exact', async (t, { feed }) => {
    await feed.publish([key(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 1)]);
    t.strictSame(await published(feed), [`${Number.MAX_SAFE_INTEGER - 1}/${Number.MAX_SAFE_INTEGER}`]);
  });

  contract('one event can stand for many tokens of a user', async (t, { feed }) => {
    await feed.publishUser({ userId: 7, before: 90 }, [key(11), key(90)]);
    await feed.publishUser({ userId: 7, before: 90 }, [key(11), key(90)]);
    await feed.publish([key(11), key(90), key(91), key(11, 8)]);
    await feed.publishUser({ userId: 7, before: 95 }, []);
    t.strictSame(await published(feed), ['7<=90', '7/91', '8/11', '7<=95']);
  });

  contract('names each version of a user once within two minutes', async (t, { feed, other, pass }) => {
    const changed = (id: number, version?: number) => ({
      user: { id, ...(version && { version }) },
      status: null,
    });
    await feed.publishChanges([changed(7, 1), changed(8, 1), changed(9)]);
    await other.publishChanges([changed(7, 1), changed(7, 2)]);
    await feed.publish([key(2)]);
    await feed.publishChanges([]);
    const told = ['changed 7@1', 'changed 8@1', 'changed 9@0', 'changed 7@2', '7/2'];
    t.strictSame(await published(other), told);
    const { events } = await feed.read(3, 1);
    t.strictSame(events, [{ seq: 4, type: 'user_changed', userId: 7, version: 2 }]);
    await pass(130);
    await other.publishChanges([changed(7, 2)]);
    t.strictSame(await published(feed), [...told, 'changed 7@2']);
  });

  contract('tells a new status beside the change, each once', async (t, { feed, other }) => {
    const user = { id: 7, version: 3 };
    await feed.publishChanges([{ user, status: null }]);
    for (const status of ['created', 'disabled', 'enabled', 'deleted'] as const)
      await other.publishChanges([{ user: { id: 8, version: 3 }, status }]);
    for (let i = 0; i < 2; i++) await other.publishChanges([{ user, status: 'disabled' }]);
    t.strictSame(await published(feed), [
      'changed 7@3',
      'created 8@3',
      'changed 8@3',
      'disabled 8@3',
      'enabled 8@3',
      'deleted 8@3',
      'disabled 7@3',
    ]);
  });

  contract('publishes a theft again once it is recorded', async (t, { feed }) => {
    await feed.publishUnrecorded([key(11)]);
    await feed.publishUnrecorded([key(11)]);
    await feed.publish([key(11)]);
    await feed.publish([key(11)]);
    t.strictSame(await published(feed), ['7/11', '7/11']);
  });

  contract('keeps only the latest events, and tells readers that have fallen behind', async (t, { feed }) => {
    // Redis drops whole nodes of a hundred entries.
    const count = 4 * KEPT;
    await feed.publish(keysFrom(1, count));
    t.match(await feed.read(0, 10), { last: count, events: null });
    const { events } = await feed.read(count - KEPT, count);
    t.equal(events?.length, KEPT);
    t.equal(events?.[0]?.seq, count - KEPT + 1);
    // The oldest position without a gap, and the one before it.
    let oldest = count;
    while ((await feed.read(oldest - 1, 1)).events) oldest--;
    t.ok(oldest > 0 && oldest <= count - KEPT, `from ${oldest} on no event is missing`);
    t.match((await feed.read(oldest, 1)).events, [{ seq: oldest + 1 }]);
  });

  contract('publishes a batch that is larger than one call may hold', async (t, { feed }) => {
    const keys = keysFrom(1, 2500);
    await feed.publish(keys.slice(0, KEPT));
    await feed.publish(keys);
    t.equal((await feed.read(0, 1)).last, keys.length);
    const { events } = await feed.read(keys.length - 2, 10);
    t.strictSame((events ?? []).map(eventText), ['7/2499', '7/2500']);
  });

  contract('an epoch lasts while a replica renews it', async (t, { feed, other, pass }) => {
    const { epoch } = await feed.read(0, 1);
    await feed.publish([key(11)]);
    for (let i = 0; i < 4; i++) {
      await pass(45);
      await (i % 2 ? feed : other).renewed(60_000, 0, null);
    }
    t.equal((await feed.read(0, 1)).epoch, epoch);
    t.strictSame(await published(feed), ['7/11']);
  });

  contract('a renewal that does not reach back to the previous one starts a new epoch', async (t, under) => {
    const { feed, other, pass } = under;
    const { epoch } = await feed.read(0, 1);
    await feed.publish([key(11)]);
    await pass(61);
    await other.renewed(60_000, 0, null);
    const anew = await feed.read(0, 10);
    t.not(anew.epoch, epoch);
    t.match(anew, { last: 0, events: [] });
    await feed.publish([key(11)]);
    t.strictSame(await published(other), ['7/11'], 'events of the old epoch are published again');
    await pass(70);
    await other.renewed(140_000, 0, null);
    t.equal((await feed.read(0, 1)).epoch, anew.epoch, 'it looks back far enough');
  });

  contract('a fence ends with a renewal that knew of it before it began', async (t, { feed, other }) => {
    t.equal(await other.askedRenewal(), null);
    const ends: (FeedPosition | null)[] = [];
    const controller = new AbortController();
    const asks = async () => {
      void feed.fence(controller.signal).then((found) => ends.push(found));
      await until(async () => (await other.askedRenewal()) !== null);
    };
    const ended = () => until(() => ends.length > 0);
    await asks();
    const mark = await other.askedRenewal();
    const { epoch } = await feed.read(0, 1);
    t.strictSame(mark, { epoch, asked: 1 });
    await other.renewed(60_000, 0, null);
    await other.renewed(60_000, 0, { epoch: 'another', asked: 7 });
    t.strictSame(await other.askedRenewal(), mark, 'of another epoch, or without a number, it serves nobody');
    await other.publish([key(11)]);
    await other.renewed(60_000, 0, mark);
    t.equal(await other.askedRenewal(), null);
    await ended();
    t.strictSame(ends.splice(0), [await other.end()]);
    await asks();
    await other.renewed(60_000, 0, mark);
    t.strictSame(await other.askedRenewal(), { epoch, asked: 2 }, 'one that comes late serves nobody else');
    controller.abort();
    await ended();
    t.strictSame(ends, [null]);
  });

  contract('another epoch knows of no number', async (t, { feed, other, pass }) => {
    const controller = new AbortController();
    void feed.fence(controller.signal);
    await until(async () => (await other.askedRenewal()) !== null);
    const mark = await other.askedRenewal();
    controller.abort();
    await pass(61);
    await other.renewed(60_000, 0, mark);
    t.equal(await other.askedRenewal(), null);
    const ends: (FeedPosition | null)[] = [];
    void feed.fence(new AbortController().signal).then((found) => ends.push(found));
    await until(async () => (await other.askedRenewal()) !== null);
    const next = await other.askedRenewal();
    t.match(next, { asked: 1 });
    t.not(next?.epoch, mark?.epoch);
    await other.renewed(60_000, 0, next);
    await until(() => ends.length > 0);
    t.strictSame(ends, [await other.end()]);
  });

  contract('a renewal counts from the time at which it queried the record', async (t, { feed, pass }) => {
    const { epoch } = await feed.read(0, 1);
    await feed.renewed(60_000, 30_000, null);
    await pass(40);
    await feed.renewed(60_000, 0, null);
    t.not((await feed.read(0, 1)).epoch, epoch, '70 seconds passed between the two');
  });
}
