import { test } from 'tap';
import { makeEnforcement } from '../../../src/domain/enforcement/enforcement.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { FeedPosition } from '../../../src/domain/feed/ports.ts';
import type { EndedTarget, JudgedReader } from '../../../src/domain/enforcement/ports.ts';
import { aClock } from '../../support/clock.ts';

const aReader = (reader: string, seq: number | null, more: Partial<JudgedReader> = {}): JudgedReader => ({
  serviceId: 'shop',
  name: 'shop',
  reader,
  instance: null,
  position: seq === null ? null : { epoch: 'e', seq },
  maxStaleness: null,
  whenStale: null,
  seenAt: aClock().now(),
  ...more,
});

interface State {
  readers: JudgedReader[];
  published: Map<number, number>;
  fence: FeedPosition;
  end: FeedPosition;
  /** Redis. */
  isAway: boolean;
  looks: number;
  fences: number;
  /** By how much PostgreSQL's clock is ahead of ours. */
  ahead: number;
  asked: number[][];
}

/** A record and a feed that the test changes. Time passes with each sleep. */
function aWorld(readers: JudgedReader[], changes: Partial<EndedTarget> | null = {}) {
  const clock = aClock();
  const at = clock.now();
  const ended = changes && { endedAt: at, publishedAt: at, pending: [], longLivedUntil: 0, ...changes };
  const state: State = {
    readers,
    published: new Map(),
    fence: { epoch: 'e', seq: 41 },
    end: { epoch: 'e', seq: 41 },
    isAway: false,
    looks: 0,
    fences: 0,
    ahead: 0,
    asked: [],
  };
  const away = () => Promise.reject(new AuthError('unavailable'));
  let sleepers: { until: number; wake: () => void }[] = [];
  const pass = async (ms: number) => {
    clock.pass(ms);
    const due = sleepers.filter(({ until }) => until <= clock.monotonic());
    sleepers = sleepers.filter((each) => !due.includes(each));
    for (const { wake } of due) wake();
    for (let i = 0; i < 5; i++) await new Promise(setImmediate);
  };
  const enforcement = makeEnforcement({
    store: {
      ended: () => Promise.resolve(ended),
      look(ids) {
        state.looks++;
        state.asked.push([...ids]);
        const { readers: present, published } = state;
        return Promise.resolve({ now: clock.now() + state.ahead, readers: present, published });
      },
    },
    feed: {
      fence(signal) {
        state.fences++;
        if (signal.aborted) return Promise.resolve(null);
        if (!state.isAway) return Promise.resolve(state.fence);
        return new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reject(new AuthError('unavailable'));
          });
        });
      },
      end: () => (state.isAway ? away() : Promise.resolve(state.end)),
    },
    clock,
    sleep: (ms) =>
      new Promise<void>((wake) => {
        sleepers.push({ until: clock.monotonic() + ms, wake });
      }),
    accessTokenTtl: 900,
  });
  return { enforcement, state, pass, at };
}

test('the answer comes once all readers have confirmed', async (t) => {
  const { enforcement, state, pass, at } = aWorld([aReader('a', 41), aReader('b', 40)]);
  let isAnswered = false;
  const asked = enforcement.ask({ token: 7 }, 5).finally(() => {
    isAnswered = true;
  });
  await pass(1000);
  t.notOk(isAnswered);
  state.readers = [aReader('a', 41), aReader('b', 41)];
  await pass(1000);
  t.strictSame(await asked, {
    endedAt: at,
    published: at,
    done: true,
    counts: { enforced: 2, bounded: 0, pending: 0, unknown: 0 },
    waiting: [],
  });
});

test('what is not published is enforced by nobody, and its tokens are followed', async (t) => {
  const { enforcement, state, pass, at } = aWorld([aReader('a', 41)], { pending: [7, 8] });
  const asked = enforcement.ask({ user: 1 }, 5);
  await pass(0);
  state.published.set(7, at + 1000);
  await pass(1000);
  t.strictSame(state.asked.at(-1), [7, 8]);
  state.published.set(8, at + 500);
  await pass(1000);
  t.match(await asked, { published: at + 1000, done: true, counts: { enforced: 1 } });
  const cut = aWorld([aReader('a', 41)], { pending: null });
  t.match(await cut.enforcement.ask({ all: true }, 0), {
    published: null,
    done: false,
    counts: { pending: 1 },
  });
  t.equal(cut.state.fences, 0);
});

test('after the wait it tells who is missing, the pending first', async (t) => {
  const silent = aReader('silent', 40, { seenAt: 0 });
  const { enforcement, pass, at } = aWorld([silent, aReader('late', 40), aReader('a', 41)]);
  const asked = enforcement.ask({ token: 7 }, 2);
  await pass(1000);
  await pass(1000);
  const until = at + 965_000;
  t.match(await asked, {
    done: false,
    counts: { enforced: 1, pending: 1, unknown: 1 },
    waiting: [
      { state: 'pending', until, by: 'expired', reader: { reader: 'late' } },
      { state: 'unknown', until, by: 'expired', reader: { reader: 'silent' } },
    ],
  });
  const many = aWorld(Array.from({ length: 150 }, (_, i) => aReader(`r${i}`, 40)));
  const { counts, waiting } = await many.enforcement.ask({ token: 7 }, 0);
  t.equal(counts.pending, 150);
  t.equal(waiting.length, 100);
});

test('a target that has not ended is never done, and nobody is judged', async (t) => {
  const { enforcement, state } = aWorld([aReader('a', 41)], null);
  t.match(await enforcement.ask({ token: 7 }, 5), {
    endedAt: null,
    published: null,
    done: false,
    waiting: [],
  });
  t.equal(state.looks, 0);
});

test('a feed that has begun again, or ends before a position, proves nothing', async (t) => {
  for (const end of [
    { epoch: 'f', seq: 99 },
    { epoch: 'e', seq: 40 },
  ]) {
    const { enforcement, state, pass } = aWorld([aReader('a', 41)]);
    state.end = end;
    const asked = enforcement.ask({ token: 7 }, 2);
    await pass(1000);
    await pass(1000);
    t.match(await asked, { done: false, counts: { enforced: 0, pending: 1 } }, end.epoch);
  }
});

test('without the feed it is 503 after the wait, unless nobody needs it', async (t) => {
  const { enforcement, state, pass } = aWorld([aReader('a', 41)]);
  state.isAway = true;
  const asked = enforcement.ask({ token: 7 }, 1).catch((error: unknown) => error);
  await pass(0);
  await pass(1000);
  t.match(await asked, new AuthError('unavailable'));
  state.readers = [];
  const again = enforcement.ask({ token: 7 }, 1);
  await pass(0);
  await pass(1000);
  t.match(await again, { done: true });
});

test('bounds count from the later clock, and are judged by the earlier', async (t) => {
  const strict = aReader('a', null, { maxStaleness: 60, whenStale: 'refuse' });
  for (const [ahead, state] of [
    [0, 'bounded'],
    [3_600_000, 'bounded'],
    [-3_600_000, 'pending'],
  ] as const) {
    const world = aWorld([strict]);
    await world.pass(91_000);
    world.state.ahead = ahead;
    t.match(await world.enforcement.ask({ token: 7 }, 0), { counts: { [state]: 1 } }, `${ahead}`);
  }
  const lasting = aWorld([aReader('a', null)], { longLivedUntil: null });
  t.match(
    await lasting.enforcement.ask({ token: 7 }, 0),
    { waiting: [{ until: null }] },
    'a token without expiry',
  );
  const long = aWorld([aReader('a', null)], { longLivedUntil: lasting.at + 9_000_000 });
  t.match(await long.enforcement.ask({ token: 7 }, 0), { waiting: [{ until: long.at + 9_065_000 }] });
});

test('all who wait share one look a second, and a replica that stops answers what it knows', async (t) => {
  const { enforcement, state, pass } = aWorld([aReader('a', 40)]);
  const asked = Array.from({ length: 20 }, () => enforcement.ask({ token: 7 }, 30));
  await pass(0);
  for (let i = 0; i < 3; i++) await pass(1000);
  t.ok(state.looks <= 5, `${state.looks} looks`);
  enforcement.close();
  for (const answer of await Promise.all(asked)) t.match(answer, { done: false, counts: { pending: 1 } });
  const late = enforcement.ask({ token: 7 }, 30);
  await pass(0);
  await pass(1000);
  t.match(await late, { done: false });
});

test('one service asks eight questions at a time, and all together 64', async (t) => {
  const { enforcement } = aWorld([aReader('a', 40)]);
  const open = (asker: string | null, count: number) =>
    Array.from({ length: count }, () => enforcement.ask({ token: 7 }, 30, asker));
  const refused = (asker: string | null) =>
    t.rejects(enforcement.ask({ token: 7 }, 30, asker), new AuthError('unavailable'), String(asker));
  const all = open('shop', 8);
  await refused('shop');
  for (let i = 1; i < 8; i++) all.push(...open(`s${i}`, 8));
  await refused('desk');
  await refused(null);
  enforcement.close();
  void Promise.all(all);
});

test('a question whose asker is gone gives its place back', async (t) => {
  const { enforcement, pass } = aWorld([aReader('a', 40)]);
  const gone = new AbortController();
  const left = Array.from({ length: 8 }, () => enforcement.ask({ token: 7 }, 30, 'shop', gone.signal));
  await pass(1000);
  gone.abort();
  await pass(1000);
  for (const answer of await Promise.all(left)) t.match(answer, { done: false });
  const next = enforcement.ask({ token: 7 }, 0, 'shop');
  await pass(1000);
  t.match(await next, { done: false });
});

test('what many questions follow is asked for once', async (t) => {
  const { enforcement, state, pass } = aWorld([], { pending: [7, 8] });
  const asked = Array.from({ length: 3 }, () => enforcement.ask({ all: true }, 1));
  await pass(0);
  t.strictSame(state.asked.at(-1), [7, 8]);
  await pass(1000);
  await pass(1000);
  await Promise.all(asked);
  const ids = (from: number) => Array.from({ length: 15_000 }, (_, i) => from + i);
  const many = aWorld([], { pending: [...ids(0), ...ids(20_000)] });
  void many.enforcement.ask({ all: true }, 1);
  await many.pass(0);
  t.equal(many.state.asked.at(-1)?.length, 20_000);
});
