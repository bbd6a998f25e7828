import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'tap';
import type { ServiceVersions } from '../../../src/domain/services/directory.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeCatchUp } from '../../../src/domain/feed/catch-up.ts';
import { makeFanOut } from '../../../src/domain/feed/fan-out.ts';
import type { FeedPosition, RevocationFeed } from '../../../src/domain/feed/ports.ts';
import type { FeedMessage, FeedReader } from '../../../src/domain/feed/reader.ts';
import { aClock } from '../../support/clock.ts';
import { deferred } from '../../support/deferred.ts';
import { aFeed, eventText } from '../../support/feed.ts';

const key = (tokenId: number) => ({ userId: 7, tokenId });

/** Everything waits for turns of the event loop only: what has not happened after so many never will. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  for (let turns = 0; turns < 500; turns++) {
    if (await condition()) return;
    await turn();
  }
  throw new Error(`never: ${String(condition)}`);
}

/** Lets everything happen that has begun. */
async function settled(): Promise<void> {
  for (let turns = 0; turns < 50; turns++) await turn();
}

/** A fan-out over a feed that a test can empty or stop, and a record that has all published events. */
function aWorld({ maxReaders = 10, maxReadersPerService = 10 } = {}) {
  const clock = aClock();
  const recorded = new Set<number>();
  const ends: string[] = [];
  const read: number[] = [];
  const faults: string[] = [];
  const snapshots: string[] = [];
  const waits: number[] = [];
  const services = new Set(['shop']);
  let stream = aFeed();
  let isAway = false;
  let isRecordAway = false;
  let fault: Error = new AuthError('unavailable');
  /** The next answer of the stream waits for it. */
  let held: Promise<void> | null = null;
  const feed: Pick<RevocationFeed, 'read'> = {
    async read(...asked) {
      const [hold, answer] = [held, isAway ? Promise.reject(fault) : stream.read(...asked)];
      held = null;
      await hold;
      return answer;
    },
  };
  const catchUp = makeCatchUp({
    feed,
    record: {
      within: () =>
        isRecordAway
          ? Promise.reject(new AuthError('unavailable'))
          : Promise.resolve({ tokens: [...recorded], statuses: [] }),
    },
    remember: 905,
    observe: { feedSnapshot: (reason) => snapshots.push(reason) },
  });
  const fanOut = makeFanOut({
    feed,
    catchUp,
    maxReaders,
    maxReadersPerService,
    clock,
    wait: (ms) => {
      waits.push(ms);
      return turn();
    },
    isAdmitted: ({ serviceId }) => services.has(serviceId),
    serviceVersions: () => ({ shop: 1 }),
    onRead: (position) => read.push(position.seq),
    observe: { feedEnded: (reason) => ends.push(reason) },
    onError: ({ message }) => faults.push(message),
  });
  return {
    fanOut,
    clock,
    services,
    ends,
    read,
    faults,
    snapshots,
    waits,
    /** Commits and publishes. */
    async revoke(tokenId: number) {
      recorded.add(tokenId);
      await stream.publish([key(tokenId)]);
    },
    /** Commits; the event is lost. */
    loses: (tokenId: number) => recorded.add(tokenId),
    empty: () => {
      stream = aFeed();
    },
    stores: (away: { redis?: boolean; record?: boolean; by?: Error }) => {
      isAway = away.redis ?? isAway;
      isRecordAway = away.record ?? isRecordAway;
      fault = away.by ?? fault;
    },
    holdNextRead: (until: Promise<void>) => {
      held = until;
    },
    /** Lets the time of one heartbeat pass. */
    async tick() {
      clock.pass(1000);
      await fanOut.poll();
    },
  };
}

/** A reader that notes its messages. */
function aReader(serviceId = 'shop') {
  const told: string[] = [];
  const versions: ServiceVersions[] = [];
  let latest: readonly FeedMessage[] = [];
  let position: FeedPosition | null = null;
  let isEnded = false;
  let backlog = 0;
  let flushed = Promise.resolve(true);
  const reader: FeedReader = {
    id: null,
    service: {
      serviceId,
      name: serviceId,
      audience: null,
      proof: { by: 'secret', secretHash: new Uint8Array(32) },
    },
    send: (messages) => {
      if (messages.length === 0) throw new Error('a write of nothing');
      latest = messages;
      for (const message of messages) {
        if (message.type === 'clients') versions.push(message.versions);
        else if (message.type === 'event') told.push(eventText(message.event));
        else told.push(message.type === 'snapshot' ? `snapshot ${message.tokens.join()}` : message.type);
        position = message.position ?? position;
      }
    },
    backlog: () => backlog,
    flushed: () => flushed,
    end: () => {
      isEnded = true;
    },
  };
  return {
    reader,
    told,
    versions,
    latest: () => latest,
    position: () => position,
    isEnded: () => isEnded,
    isBehind: (bytes: number) => {
      backlog = bytes;
    },
    flushes: (promise: Promise<boolean>) => {
      flushed = promise;
    },
  };
}

type World = ReturnType<typeof aWorld>;

/** A reader that follows the stream. */
async function follows(world: World, from: FeedPosition | null = null) {
  const one = aReader();
  (await world.fanOut.open(from, 'shop'))(one.reader);
  await until(async () => {
    await world.tick();
    return one.told.at(-1) === 'heartbeat';
  });
  return one;
}

test('a reader gets the snapshot, then events, then heartbeats that confirm completeness', async (t) => {
  const world = aWorld();
  await world.revoke(11);
  const one = await follows(world);
  t.equal(one.told[0], 'snapshot 11');
  one.told.length = 0;
  await world.revoke(12);
  await world.revoke(13);
  await world.fanOut.poll();
  t.strictSame(one.told, ['7/12', '7/13']);
  t.equal(world.read.at(-1), 3, 'whoever measures how long readers take is told');
  await world.tick();
  t.strictSame(one.told, ['7/12', '7/13', 'heartbeat'], 'one heartbeat a second, not one per poll');
});

test('a returning reader gets only the events that it missed', async (t) => {
  const world = aWorld();
  const [one, other] = [await follows(world), await follows(world)];
  const position = one.position();
  world.fanOut.leave(one.reader);
  await world.revoke(11);
  await world.tick();
  t.strictSame(world.ends, ['left']);
  const again = await follows(world, position);
  t.strictSame(again.told, ['7/11', 'heartbeat']);
  await world.revoke(12);
  await world.fanOut.poll();
  t.strictSame(again.told.slice(2), ['7/12']);
  t.ok(other.told.includes('7/11') && other.told.includes('7/12'));
});

test('a reader ahead of the others gets nothing twice', async (t) => {
  const world = aWorld();
  await world.revoke(11);
  const behind = await follows(world);
  behind.told.length = 0;
  await world.revoke(12);
  const ahead = aReader();
  (await world.fanOut.open(null, 'shop'))(ahead.reader);
  await settled();
  // It has joined a reader that has not received 12 yet.
  await world.revoke(13);
  await world.fanOut.poll();
  t.strictSame(ahead.told, ['snapshot 11,12', '7/13']);
  t.strictSame(behind.told, ['7/12', '7/13']);
});

test('one poll sends everything, however much, and nothing twice to a reader pages ahead', async (t) => {
  const world = aWorld();
  const behind = await follows(world);
  const position = behind.position();
  behind.told.length = 0;
  const events = Array.from({ length: 1500 }, (_, i) => `7/${i + 1}`);
  for (let id = 1; id <= 1500; id++) await world.revoke(id);
  const ahead = aReader();
  (await world.fanOut.open(position, 'shop'))(ahead.reader);
  await until(() => ahead.told.length >= 1500);
  t.strictSame(world.waits, [], 'it had a page to read after each');
  await settled();
  await world.fanOut.poll();
  for (const { told } of [behind, ahead]) t.strictSame(told, events);
});

test('a reader that falls behind the others while it catches up misses nothing', async (t) => {
  const world = aWorld();
  const one = await follows(world);
  const [late, flush] = [aReader(), deferred<boolean>()];
  await world.revoke(11);
  late.flushes(flush.promise);
  (await world.fanOut.open(one.position(), 'shop'))(late.reader);
  await world.revoke(12);
  await world.fanOut.poll();
  flush.resolve(true);
  await until(() => late.told.length === 2);
  t.strictSame(late.told, ['7/11', '7/12']);

  const [later, flushLater] = [aReader(), deferred<boolean>()];
  later.flushes(flushLater.promise);
  await world.revoke(13);
  (await world.fanOut.open(one.position(), 'shop'))(later.reader);
  world.empty();
  world.loses(14);
  await world.fanOut.poll();
  await until(() => one.told.at(-1) === 'snapshot 11,12,13,14');
  await settled();
  flushLater.resolve(true);
  await until(() => later.told.length > 1);
  t.strictSame(later.told, ['7/13', 'snapshot 11,12,13,14']);
});

test('readers that are level share one array, which is serialised once', async (t) => {
  const world = aWorld();
  const [one, other] = [await follows(world), await follows(world)];
  await world.revoke(11);
  await world.fanOut.poll();
  t.equal(one.latest(), other.latest());
});

test('a reader that has left gets nothing more', async (t) => {
  for (const tokens of [1, 5001]) {
    const world = aWorld();
    for (let id = 1; id <= tokens; id++) world.loses(id);
    const [one, flush] = [aReader(), deferred<boolean>()];
    one.flushes(flush.promise);
    (await world.fanOut.open(null, 'shop'))(one.reader);
    world.fanOut.leave(one.reader);
    flush.resolve(true);
    await settled();
    await world.tick();
    t.equal(one.told.length, 1);
  }
});

test('when all readers have left, the stream is not read, and the next reader may follow another', async (t) => {
  const world = aWorld();
  const one = await follows(world);
  world.fanOut.leave(one.reader);
  world.stores({ redis: true });
  await world.tick();
  world.stores({ redis: false });
  world.empty();
  t.equal((await follows(world)).told.at(-1), 'heartbeat');
});

test('a poll that outlasts its readers tells those who came meanwhile nothing of another stream', async (t) => {
  const world = aWorld();
  const [one, hold] = [await follows(world), deferred<undefined>()];
  await world.revoke(11);
  world.holdNextRead(hold.promise);
  const polling = world.fanOut.poll();
  world.fanOut.leave(one.reader);
  world.empty();
  const other = aReader();
  (await world.fanOut.open(null, 'shop'))(other.reader);
  await settled();
  hold.resolve(undefined);
  await polling;
  t.strictSame(other.told, ['snapshot 11']);
});

test('a reader waits while the stores are down, and a bug ends it', async (t) => {
  for (const error of [new AuthError('unavailable'), new AuthError('internal_error'), new Error('ours')]) {
    const isOutage = error.message === 'unavailable';
    const world = aWorld();
    const one = aReader();
    const start = await world.fanOut.open(null, 'shop');
    world.stores({ redis: true, by: error });
    start(one.reader);
    await settled();
    t.equal(one.isEnded(), !isOutage);
    t.strictSame(world.faults, isOutage ? [] : [error.message]);
    if (isOutage) t.ok(world.waits.length > 1);
    world.stores({ redis: false });
    await world.revoke(11);
    await settled();
    t.strictSame(one.told, isOutage ? ['snapshot ', '7/11'] : ['snapshot ']);
  }
});

test('a reader hears the versions of the clients when it comes, and when they change', async (t) => {
  const world = aWorld();
  const one = await follows(world);
  const position = one.position();
  world.fanOut.sendServices({ shop: 2 });
  t.strictSame(one.versions, [{ shop: 1 }, { shop: 2 }]);
  t.equal(one.position(), position);
});

test('after the loss of the stream every reader gets a snapshot', async (t) => {
  const world = aWorld();
  const readers = [await follows(world), await follows(world)];
  world.empty();
  world.loses(11);
  for (const one of readers) one.told.length = 0;
  await until(async () => {
    await world.tick();
    return readers.every(({ told }) => told.at(-1) === 'heartbeat');
  });
  for (const { told } of readers) t.equal(told[0], 'snapshot 11', 'before any heartbeat');
  t.strictSame(world.snapshots, ['new', 'new', 'epoch', 'epoch']);
  await world.revoke(12);
  await world.fanOut.poll();
  for (const { told } of readers) t.equal(told.at(-1), '7/12');
});

test('while the stream cannot be read no reader gets messages, and the lag shows it', async (t) => {
  const world = aWorld();
  t.equal(world.fanOut.lag(), 0);
  const one = await follows(world);
  t.equal(world.fanOut.lag(), 0);
  one.told.length = 0;
  world.stores({ redis: true });
  await t.rejects(world.tick(), { code: 'unavailable' });
  await t.rejects(world.tick(), { code: 'unavailable' });
  t.strictSame(one.told, []);
  t.equal(world.fanOut.lag(), 2000);
  world.stores({ redis: false });
  await world.tick();
  t.strictSame(one.told, ['heartbeat'], 'it continues at its position');
  t.equal(world.fanOut.lag(), 0);
  world.clock.pass(5000);
  world.fanOut.leave(one.reader);
  t.equal(world.fanOut.lag(), 0, 'no reader waits');
});

test('the lag begins with the first reader, and ends for all of them with a poll', async (t) => {
  const world = aWorld();
  world.clock.pass(5000);
  const open = async () => {
    (await world.fanOut.open(null, 'shop'))(aReader().reader);
  };
  await open();
  t.equal(world.fanOut.lag(), 0);
  world.clock.pass(1000);
  await open();
  t.equal(world.fanOut.lag(), 1000);
  await settled();
  await world.fanOut.poll();
  t.equal(world.fanOut.lag(), 0);
});

test('the lag includes readers that have disconnected or were refused, until they should have returned', async (t) => {
  const world = aWorld();
  const one = await follows(world);
  world.stores({ redis: true });
  world.fanOut.leave(one.reader);
  for (let i = 0; i < 12; i++) {
    await t.rejects(world.fanOut.open(one.position(), 'shop'), { code: 'unavailable' });
    t.equal(world.fanOut.lag(), i * 1000);
    world.clock.pass(1000);
  }
  world.stores({ redis: false });
  const again = await follows(world);
  t.equal(world.fanOut.lag(), 0);
  world.fanOut.leave(again.reader);

  world.stores({ redis: true });
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  world.clock.pass(14_000);
  t.equal(world.fanOut.lag(), 14_000);
  world.clock.pass(1000);
  t.equal(world.fanOut.lag(), 0, 'no reader waits any more');
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  t.equal(world.fanOut.lag(), 0, 'this reader has only just connected');
});

test('while the record is down, readers that need it get nothing, and new readers are refused', async (t) => {
  const world = aWorld();
  const one = await follows(world);
  const position = one.position();
  world.empty();
  world.loses(11);
  world.stores({ record: true });
  one.told.length = 0;
  for (let i = 0; i < 3; i++) await world.tick();
  t.strictSame(one.told, []);
  t.equal(world.fanOut.lag(), 3000, 'it may have missed events since');
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  await t.rejects(world.fanOut.open(position, 'shop'), { code: 'unavailable' }, 'its position is not valid');

  world.stores({ record: false });
  await until(async () => {
    await world.tick();
    return one.told.at(-1) === 'heartbeat';
  });
  t.equal(one.told[0], 'snapshot 11');
  world.stores({ record: true });
  await world.revoke(12);
  await t.resolves(
    world.fanOut.open(one.position(), 'shop'),
    'a reader with a valid position needs no record',
  );
});

test('only a slow reader is cut off', async (t) => {
  const world = aWorld();
  const [slow, quick] = [await follows(world), await follows(world)];
  slow.isBehind(1024 * 1024 + 1);
  quick.isBehind(1024 * 1024);
  await world.fanOut.poll();
  t.equal(slow.isEnded(), true);
  t.equal(quick.isEnded(), false);
  t.strictSame(world.ends, ['slow']);
  t.equal(world.fanOut.readers(), 1);
  t.equal(world.fanOut.connected().length, 1);

  const stuck = aReader();
  stuck.flushes(Promise.resolve(false));
  (await world.fanOut.open(null, 'shop'))(stuck.reader);
  await until(() => stuck.isEnded());
  t.strictSame(world.ends, ['slow', 'slow'], 'also during a snapshot');
});

test('the number of readers is limited, including readers that are still opening', async (t) => {
  const world = aWorld({ maxReaders: 2 });
  const opening = [world.fanOut.open(null, 'shop'), world.fanOut.open(null, 'shop')];
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  const starts = await Promise.all(opening);
  const readers = [aReader(), aReader()];
  starts.forEach((start, i) => {
    start(readers[i]?.reader ?? aReader().reader);
  });
  t.equal(world.fanOut.readers(), 2);
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  world.fanOut.leave(readers[0]?.reader ?? aReader().reader);
  await t.resolves(world.fanOut.open(null, 'shop'));
});

test('the number of readers per service is limited, which leaves room for other services', async (t) => {
  const world = aWorld({ maxReaders: 10, maxReadersPerService: 2 });
  const opening = ['till', 'till', 'shop', 'shop'].map((serviceId) => world.fanOut.open(null, serviceId));
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' }, 'opening readers count');
  const starts = (await Promise.all(opening)).slice(2);
  const readers = [aReader(), aReader()];
  starts.forEach((start, i) => {
    start(readers[i]?.reader ?? aReader().reader);
  });
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  t.equal(world.fanOut.lag(), 0, 'not a reason for an alert');
  (await world.fanOut.open(null, 'till'))(aReader('till').reader);
  world.fanOut.leave(readers[0]?.reader ?? aReader().reader);
  await t.resolves(world.fanOut.open(null, 'shop'), 'there is room again');
});

test('a reader that fails to open frees its place', async (t) => {
  const world = aWorld({ maxReaders: 1 });
  world.stores({ record: true });
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  world.stores({ record: false });
  await t.resolves(world.fanOut.open(null, 'shop'));
});

test('the readers of a deleted service are ended', async (t) => {
  const world = aWorld();
  const one = await follows(world);
  const other = aReader('till');
  world.services.add('till');
  (await world.fanOut.open(null, 'shop'))(other.reader);
  world.fanOut.disconnectInvalidServices();
  t.strictSame(world.ends, []);
  world.services.delete('shop');
  world.fanOut.disconnectInvalidServices();
  t.equal(one.isEnded(), true);
  t.equal(other.isEnded(), false);
  t.strictSame(world.ends, ['client']);
});

test('closing ends every reader, and refuses new ones', async (t) => {
  const world = aWorld();
  const one = await follows(world);
  const start = await world.fanOut.open(null, 'shop');
  world.fanOut.close();
  t.equal(one.isEnded(), true);
  const late = aReader();
  start(late.reader);
  t.equal(late.isEnded(), true);
  t.strictSame(late.told, []);
  await t.rejects(world.fanOut.open(null, 'shop'), { code: 'unavailable' });
  t.strictSame(world.ends, ['drain', 'drain']);
  world.fanOut.leave(one.reader);
  t.equal(world.ends.length, 2, 'counted once');
});

test('a bug ends the reader and is logged', async (t) => {
  const world = aWorld();
  const one = aReader();
  one.flushes(Promise.reject(new Error('ours')));
  (await world.fanOut.open(null, 'shop'))(one.reader);
  await until(() => one.isEnded());
  t.strictSame(world.faults, ['ours']);
  t.strictSame(world.ends, ['fault']);
});
