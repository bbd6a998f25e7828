import fc from 'fast-check';
import { test } from 'tap';
import {
  makeBulkhead,
  type BulkheadOptions,
  type Share,
  type Turn,
} from '../../../src/domain/passwords/bulkhead.ts';
import { aClock } from '../../support/clock.ts';
import { someTimers } from '../../support/timers.ts';

const HOME: Turn = ['192.0.2.0/24', '192.0.2.1'];
const OTHER: Turn = ['192.0.2.0/24', '192.0.2.2'];

/** Tasks that a test ends one by one; `started` lists them in their starting order. */
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
  const startFrom = (turn: Turn, name: string, share: Share = 'known') =>
    bulkhead.run(share, turn, () => {
      started.push(name);
      return new Promise<string>((resolve, reject) => ends.set(name, { resolve, reject }));
    });
  const start = (name: string) => startFrom(HOME, name);
  const end = (name: string) => ends.get(name)?.resolve(name);
  /** A task that takes this many milliseconds. */
  const spend = async (ms: number) => {
    const spent = start('spent');
    await Promise.resolve();
    clock.pass(ms);
    end('spent');
    await spent;
  };
  const crash = (name: string) => ends.get(name)?.reject(new Error(name));
  return { bulkhead, clock, start, startFrom, end, spend, crash, started, goOff, waiting, seen };
}

const overloaded = { name: 'AuthError', code: 'overloaded', retryAfter: 1 };

test('runs up to the limit concurrently, and the others in turn', async (t) => {
  const { start, end, started, waiting } = aBulkhead();
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(start);
  await Promise.resolve();
  t.strictSame(started, ['a', 'b']);
  t.strictSame(waiting(), [5000, 5000]);
  end('b');
  t.equal(await b, 'b', 'each caller gets its own result');
  t.strictSame(started, ['a', 'b', 'c']);
  end('a');
  t.equal(await a, 'a');
  t.strictSame(started, ['a', 'b', 'c', 'd']);
  t.strictSame(waiting(), [], 'no timer is left');
  end('c');
  end('d');
  t.strictSame(await Promise.all([c, d]), ['c', 'd']);
  const e = start('e');
  const f = start('f');
  await Promise.resolve();
  t.strictSame(started.slice(4), ['e', 'f'], 'every place became free again');
  end('e');
  end('f');
  await Promise.all([e, f]);
});

test('a caller that finds the queue full is refused at once', async (t) => {
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
  t.equal(await d, 'd', 'there is room again');
});

test('a caller that has waited too long is refused, and never runs', async (t) => {
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

test('a failed task frees its place, and its caller gets the error', async (t) => {
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

test('no caller overtakes waiting ones', async (t) => {
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

test('a caller that would wait too long is refused at once, with the length of the queue', async (t) => {
  const { bulkhead, start, end, spend } = aBulkhead({ queue: 100 });
  await spend(2000);
  const running = ['a', 'b'].map(start);
  t.equal(bulkhead.tryAdmit('known', HOME), null);
  // Two run at once, for 2 s each: the fifth would wait 5 s, and the sixth 6 s.
  const waiting = ['c', 'd', 'e', 'f', 'g'].map(start);
  t.match(bulkhead.tryAdmit('known', HOME), { ...overloaded, retryAfter: 5 });
  await t.rejects(start('h'), { ...overloaded, retryAfter: 5 });
  end('a');
  await running[0];
  t.equal(bulkhead.tryAdmit('known', HOME), null, 'admitted once the queue is shorter');
  for (const name of ['b', 'c', 'd', 'e', 'f', 'g']) {
    end(name);
    await Promise.resolve();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all([...running, ...waiting]);
});

test('a task longer than the maximum wait still runs in a free place', async (t) => {
  const { bulkhead, spend, start, end } = aBulkhead({ concurrency: 1 });
  await spend(60_000);
  t.equal(bulkhead.tryAdmit('known', HOME), null);
  const a = start('a');
  t.match(
    bulkhead.tryAdmit('known', HOME),
    { ...overloaded, retryAfter: 1 },
    'the queue is empty, but a retry at once would be too early',
  );
  await Promise.resolve();
  end('a');
  await a;
});

test('the wait is predicted from the last tasks, without failed ones', async (t) => {
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
  t.match(bulkhead.tryAdmit('known', HOME), { ...overloaded, retryAfter: 5 }, 'four wait, one second each');
  for (const name of names) {
    await Promise.resolve();
    end(name);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
});

test('reports each wait, each duration and each refusal', async (t) => {
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

  // By the duration of this task, any caller behind another would wait too long.
  await spend(60_000);
  seen.length = 0;
  const d = start('d');
  await t.rejects(start('e'), { code: 'overloaded' });
  t.ok(bulkhead.tryAdmit('known', HOME));
  t.strictSame(seen.splice(0).sort(), ['began after 0', 'rejected: wait', 'rejected: wait']);
  end('d');
  await d;
});

test('a burst from one address delays another address by at most one task', async (t) => {
  const { bulkhead, startFrom, end, spend, started, seen } = aBulkhead({ concurrency: 1, queue: 4 });
  await spend(1000);
  const burst = ['a', 'b', 'c', 'd'].map((name) => startFrom(HOME, name));
  const newest = startFrom(HOME, 'e');
  t.match(
    bulkhead.tryAdmit('known', HOME),
    { ...overloaded, retryAfter: 4 },
    'its own address has most of the queue: no room for more',
  );
  t.equal(bulkhead.tryAdmit('known', OTHER), null);
  seen.length = 0;
  const other = startFrom(OTHER, 'other');
  await t.rejects(newest, { ...overloaded, retryAfter: 3 }, 'the newest one makes room');
  t.strictSame(seen.sort(), ['began after 0', 'rejected: dropped']);
  for (const name of ['a', 'b', 'other', 'c', 'd']) {
    end(name);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all([...burst, other]);
  t.strictSame(started, ['spent', 'a', 'b', 'other', 'c', 'd']);
});

test('the wait is predicted from the turns, not from the length of the queue', async (t) => {
  const { bulkhead, startFrom, end, spend } = aBulkhead({ concurrency: 1, queue: 100 });
  await spend(1000);
  const burst = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => startFrom(HOME, name));
  t.match(bulkhead.tryAdmit('known', HOME), { ...overloaded, retryAfter: 5 }, 'five already wait');
  t.match(bulkhead.tryAdmit('login', HOME), { ...overloaded, retryAfter: 5 }, 'as if it were known');
  t.equal(bulkhead.tryAdmit('known', OTHER), null, 'another address is second');
  for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) {
    await Promise.resolve();
    end(name);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(burst);
});

test('a queue with room drops no task', async (t) => {
  const { startFrom, end } = aBulkhead({ concurrency: 1, queue: 3 });
  const names = ['a', 'b', 'c', 'd'];
  const tasks = names.map((name) => startFrom(name === 'd' ? OTHER : HOME, name));
  for (const name of ['a', 'b', 'd', 'c']) {
    await new Promise((resolve) => setImmediate(resolve));
    end(name);
  }
  t.strictSame(await Promise.all(tasks), names);
});

test('a login that may be from a known device is admitted until one of its address waits', async (t) => {
  const { bulkhead, startFrom, end } = aBulkhead({ concurrency: 1, queue: 2 });
  const turns: Turn[] = ['1', '2', '3', '4'].map((i) => [`network ${i}`, i]);
  const [first, second, third, fourth] = turns as [Turn, Turn, Turn, Turn];
  const running = startFrom(first, 'running', 'login');
  const waiting = [startFrom(second, 'a', 'login'), startFrom(third, 'b', 'login')];
  t.match(bulkhead.tryAdmit('login', second), overloaded, 'its address waits');
  t.equal(bulkhead.tryAdmit('login', fourth), null);
  await t.rejects(startFrom(fourth, 'stranger', 'login'), overloaded, 'it is not known');
  const known = startFrom(fourth, 'known');
  await t.rejects(waiting[1] ?? running, overloaded, 'a login makes room');
  for (const name of ['running', 'a', 'known']) {
    await new Promise((resolve) => setImmediate(resolve));
    end(name);
  }
  t.strictSame(await Promise.all([running, waiting[0], known]), ['running', 'a', 'known']);
});

const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('come' as const), address: fc.constantFrom(0, 0, 0, 1, 2, 3) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('end' as const), which: fc.nat(5), fails: fc.boolean() }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('late' as const) }) },
);

test('in any order of arrivals and ends, the bounds hold and each task runs once or is refused once', async (t) => {
  const bounds = fc.record({ concurrency: fc.integer({ min: 1, max: 3 }), queue: fc.nat(5) });
  await fc.assert(
    fc.asyncProperty(
      bounds,
      fc.array(step, { maxLength: 40, size: 'max' }),
      async ({ concurrency, queue }, steps) => {
        const { bulkhead, startFrom, end, crash, started, goOff, waiting } = aBulkhead({
          concurrency,
          queue,
        });
        const settled: string[] = [];
        const all: Promise<void>[] = [];
        const ended = new Set<string>();
        const running = () => started.filter((name) => !ended.has(name));
        const finish = (name: string, fails: boolean) => {
          ended.add(name);
          if (fails) crash(name);
          else end(name);
        };
        for (const what of steps) {
          if (what.do === 'come') {
            const name = `${what.address}-${all.length}`;
            const turn: Turn = ['network', `${what.address}`];
            const refused = bulkhead.tryAdmit('signup', turn) !== null;
            const settle = (outcome: string) => () => void settled.push(`${name} ${outcome}`);
            all.push(startFrom(turn, name, 'signup').then(settle('ran'), settle('refused')));
            await new Promise((resolve) => setImmediate(resolve));
            if (refused !== settled.includes(`${name} refused`))
              throw new Error('refusal() reported otherwise');
          } else if (what.do === 'end') {
            const name = running()[what.which % Math.max(1, running().length)];
            if (name !== undefined) finish(name, what.fails);
            await new Promise((resolve) => setImmediate(resolve));
          } else goOff();
          if (bulkhead.running() > concurrency || bulkhead.waiting() > queue)
            throw new Error('out of bounds');
          if (bulkhead.running() !== running().length) throw new Error('a place is lost');
          if (bulkhead.waiting() > 0 && bulkhead.running() < concurrency) throw new Error('a place is idle');
          if (bulkhead.waiting() !== waiting().length) throw new Error('wrong number of timers');
        }
        while (running().length > 0) {
          for (const name of running()) finish(name, false);
          await new Promise((resolve) => setImmediate(resolve));
        }
        await Promise.all(all);
        if (settled.length !== all.length || bulkhead.running() + bulkhead.waiting() > 0)
          throw new Error('a task is lost');
        if (new Set(started).size !== started.length) throw new Error('a task ran twice');
      },
    ),
    { numRuns: 300 },
  );
  t.pass();
});
