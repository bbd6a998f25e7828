import { test } from 'tap';
import { makeBulkhead, type BulkheadOptions, type Timers } from '../../../src/domain/passwords/bulkhead.ts';
import { aClock } from '../../support/clock.ts';

/** Timers that go off when a test says so. */
function someTimers() {
  const set = new Map<number, { callback: () => void; ms: number }>();
  let last = 0;
  const timers: Timers = {
    set: (callback, ms) => {
      set.set(++last, { callback, ms });
      return last;
    },
    clear: (timer) => set.delete(timer as number),
  };
  const goOff = () => {
    for (const [timer, { callback }] of [...set]) {
      set.delete(timer);
      callback();
    }
  };
  return { timers, goOff, waiting: () => [...set.values()].map(({ ms }) => ms) };
}

/** Tasks that a test ends one by one; `started` names them in the order in which they began. */
function aBulkhead(options: Partial<BulkheadOptions> = {}) {
  const { timers, goOff, waiting } = someTimers();
  const clock = aClock();
  const seen: string[] = [];
  const bulkhead = makeBulkhead({ concurrency: 2, queue: 3, queueTimeout: 5000, ...options }, timers, clock, {
    hashBegan: (waited) => seen.push(`began after ${waited}`),
    hashEnded: (seconds) => seen.push(`took ${seconds}`),
    hashRejected: (reason) => seen.push(`rejected: ${reason}`),
  });
  const started: string[] = [];
  const ends = new Map<string, { resolve: (value: string) => void; reject: (error: Error) => void }>();
  const start = (name: string) =>
    bulkhead.run(() => {
      started.push(name);
      return new Promise<string>((resolve, reject) => ends.set(name, { resolve, reject }));
    });
  const end = (name: string) => ends.get(name)?.resolve(name);
  /** One that takes so many milliseconds. */
  const spend = async (ms: number) => {
    const spent = start('spent');
    await Promise.resolve();
    clock.pass(ms);
    end('spent');
    await spent;
  };
  const crash = (name: string) => ends.get(name)?.reject(new Error(name));
  return { bulkhead, clock, start, end, spend, crash, started, goOff, waiting, seen };
}

const overloaded = { name: 'AuthError', code: 'overloaded', retryAfter: 1 };

test('as many run at once as may, and the others in turn', async (t) => {
  const { start, end, started, waiting } = aBulkhead();
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(start);
  await Promise.resolve();
  t.strictSame(started, ['a', 'b']);
  t.strictSame(waiting(), [5000, 5000]);
  end('b');
  t.equal(await b, 'b', 'each gets its own result');
  t.strictSame(started, ['a', 'b', 'c']);
  end('a');
  t.equal(await a, 'a');
  t.strictSame(started, ['a', 'b', 'c', 'd']);
  t.strictSame(waiting(), [], 'no timer stays behind');
  end('c');
  end('d');
  t.strictSame(await Promise.all([c, d]), ['c', 'd']);
  const e = start('e');
  const f = start('f');
  await Promise.resolve();
  t.strictSame(started.slice(4), ['e', 'f'], 'every place came back');
  end('e');
  end('f');
  await Promise.all([e, f]);
});

test('who finds the queue full is refused at once', async (t) => {
  const { start, end, started } = aBulkhead({ concurrency: 1, queue: 1 });
  const [a, b] = ['a', 'b'].map(start);
  await t.rejects(start('c'), overloaded);
  end('a');
  await a;
  t.strictSame(started, ['a', 'b']);
  const d = start('d');
  end('b');
  await b;
  end('d');
  t.equal(await d, 'd', 'and there is room again');
});

test('without a queue nobody waits', async (t) => {
  const { start, end } = aBulkhead({ concurrency: 1, queue: 0 });
  const a = start('a');
  await t.rejects(start('b'), overloaded);
  await Promise.resolve();
  end('a');
  await a;
});

test('who has waited for too long is refused, and never runs', async (t) => {
  const { start, end, started, goOff } = aBulkhead({ concurrency: 1 });
  const a = start('a');
  const b = start('b');
  const c = start('c');
  goOff();
  await t.rejects(b, overloaded);
  await t.rejects(c, overloaded);
  const d = start('d');
  end('a');
  await a;
  end('d');
  t.equal(await d, 'd');
  t.strictSame(started, ['a', 'd']);
});

test('only the one whose time is up leaves the queue', async (t) => {
  const { start, end, started, goOff } = aBulkhead({ concurrency: 1 });
  const a = start('a');
  const b = start('b');
  goOff();
  const c = start('c');
  await t.rejects(b, overloaded);
  end('a');
  await a;
  end('c');
  t.equal(await c, 'c');
  t.strictSame(started, ['a', 'c']);
});

test('a task that fails gives its place back, and its error to its caller', async (t) => {
  const { start, end, crash, started } = aBulkhead({ concurrency: 1 });
  const a = start('a');
  const b = start('b');
  await Promise.resolve();
  crash('a');
  await t.rejects(a, { message: 'a' });
  end('b');
  t.equal(await b, 'b');
  t.strictSame(started, ['a', 'b']);
});

test('nobody overtakes those who wait', async (t) => {
  const { start, end, started } = aBulkhead({ concurrency: 1 });
  const a = start('a');
  const b = start('b');
  await Promise.resolve();
  end('a');
  const late = a.then(() => start('late'));
  await a;
  t.strictSame(started, ['a', 'b']);
  end('b');
  await b;
  end('late');
  t.equal(await late, 'late');
});

test('who would wait for too long is refused at once, and told how long the queue is', async (t) => {
  const { bulkhead, start, end, spend } = aBulkhead({ queue: 100 });
  await spend(2000);
  const running = ['a', 'b'].map(start);
  t.equal(bulkhead.refusal(), null);
  // Two at once, 2 s each: the fifth would wait for 5 s, and the sixth for 6 s.
  const waiting = ['c', 'd', 'e', 'f', 'g'].map(start);
  t.match(bulkhead.refusal(), { ...overloaded, retryAfter: 5 });
  await t.rejects(start('h'), { ...overloaded, retryAfter: 5 });
  end('a');
  await running[0];
  t.equal(bulkhead.refusal(), null, 'as soon as the queue is shorter it may');
  for (const name of ['b', 'c', 'd', 'e', 'f', 'g']) {
    end(name);
    await Promise.resolve();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all([...running, ...waiting]);
});

test('a task that takes longer than one may wait still runs where a place is free', async (t) => {
  const { bulkhead, spend, start, end } = aBulkhead({ concurrency: 1 });
  await spend(60_000);
  t.equal(bulkhead.refusal(), null);
  const a = start('a');
  t.match(bulkhead.refusal(), { ...overloaded, retryAfter: 1 }, 'nobody waits: at once would be too early');
  await Promise.resolve();
  end('a');
  await a;
});

test('the wait is judged by what the last tasks took, and not by one that failed', async (t) => {
  const { bulkhead, clock, spend, start, end, crash } = aBulkhead({ concurrency: 1, queue: 100 });
  for (let i = 0; i < 40; i++) await spend(6000);
  for (let i = 0; i < 40; i++) await spend(1000);
  const failed = start('failed');
  await Promise.resolve();
  clock.pass(600_000);
  crash('failed');
  await t.rejects(failed);
  const names = ['a', 'b', 'c', 'd', 'e'];
  const all = names.map(start);
  t.match(bulkhead.refusal(), { ...overloaded, retryAfter: 5 }, 'four wait, and each takes a second');
  for (const name of names) {
    await Promise.resolve();
    end(name);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
});

test('tells how long each waited and took, and of each that was refused', async (t) => {
  const { bulkhead, clock, start, end, spend, goOff, seen } = aBulkhead({ concurrency: 1, queue: 1 });
  const a = start('a');
  const b = start('b');
  t.equal(bulkhead.running(), 1);
  t.equal(bulkhead.waiting(), 1);
  await t.rejects(start('c'), overloaded);
  t.strictSame(seen.splice(0).sort(), ['began after 0', 'rejected: full']);
  clock.pass(1000);
  end('a');
  await a;
  await Promise.resolve();
  t.strictSame(seen.splice(0), ['took 1', 'began after 1']);

  const late = start('late');
  goOff();
  await t.rejects(late, { code: 'overloaded' });
  t.strictSame(seen.splice(0), ['rejected: timeout']);
  end('b');
  await b;
  t.equal(bulkhead.running() + bulkhead.waiting(), 0);

  // By what that one takes, whoever comes behind another would wait for too long.
  await spend(60_000);
  seen.length = 0;
  const d = start('d');
  await t.rejects(start('e'), { code: 'overloaded' });
  t.ok(bulkhead.refusal());
  t.strictSame(seen.splice(0).sort(), ['began after 0', 'rejected: wait', 'rejected: wait']);
  end('d');
  await d;
});
