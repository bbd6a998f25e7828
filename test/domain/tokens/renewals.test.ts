import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import type { RenewalMark } from '../../../src/domain/feed/ports.ts';
import type { TokenKey } from '../../../src/domain/principal.ts';
import type { Lease } from '../../../src/domain/tokens/lease.ts';
import type { RenewalLeases, RevocationStore } from '../../../src/domain/tokens/ports.ts';
import { makeRenewals } from '../../../src/domain/tokens/renewals.ts';
import { aClock } from '../../support/clock.ts';
import { deferred } from '../../support/deferred.ts';

/** One server of the fast store. */
class Server {
  id = 'one';
  lease: Lease | null = null;
  readonly tombstones = new Set<number>();
  moves: Lease[] = [];
  /** Runs before each look and move. */
  before: () => Promise<void> | void = () => undefined;

  readonly users: (userId: number) => boolean;

  constructor(users: (userId: number) => boolean = () => true) {
    this.users = users;
  }

  /** A promoted copy of it, which lacks what it has got since. */
  promoted(): Server {
    return Object.assign(new Server(this.users), { id: `${this.id}'`, lease: this.lease });
  }
}

type Range = Parameters<RevocationStore['settledSince']>[0];

/** A record of ends, and replicas that renew them on servers that the test replaces. */
function aWorld() {
  const clock = aClock();
  const ends: { key: TokenKey; at: number }[] = [];
  const published: number[] = [];
  const reported: [from: number, to: number][] = [];
  let usersUntil = () => clock.monotonic();
  const mark: RenewalMark = { epoch: 'e', asked: 0 };
  const served: number[] = [];

  /** @param masters where it finds them; the first one has the feed. */
  function replica(self: string, masters: Record<string, Server>) {
    const asked: Range[] = [];
    let isCutOff = false;
    let meanwhile: (range: Range) => unknown = () => undefined;
    const find = async (name: string) => {
      const server = masters[name];
      if (!server) throw new AuthError('unavailable');
      await server.before();
      return server;
    };
    const leases: RenewalLeases = {
      masters: () => Object.keys(masters),
      isThere: (name, userId) => masters[name]?.users(userId) ?? false,
      hasFeed: (name) => name === Object.keys(masters)[0],
      async look(name, asking) {
        const { id, lease } = await find(name);
        return { lease, server: lease?.replica === asking ? id : '' };
      },
      async move(name, from, to) {
        const server = await find(name);
        if (server.lease?.replica === from?.replica && server.lease?.moves === from?.moves) {
          server.lease = to;
          server.moves.push(to);
        }
        return server.lease;
      },
    };
    const renewals = makeRenewals({
      leases,
      self,
      revocations: {
        settledSince(range, limit) {
          asked.push(range);
          meanwhile(range);
          if (isCutOff) return Promise.reject(new AuthError('unavailable'));
          const isLater = ({ key, at }: (typeof ends)[number]) =>
            'ago' in range
              ? at >= clock.now() - range.ago
              : at > range.at || (at === range.at && key.tokenId > range.id);
          const page = ends.filter(isLater).slice(0, limit);
          return Promise.resolve({ keys: page.map(({ key }) => key), last: page.at(-1)?.at ?? 0 });
        },
      },
      tokenStates: {
        revokeAll(keys) {
          for (const { userId, tokenId } of keys) {
            for (const server of Object.values(masters))
              if (server.users(userId)) server.tombstones.add(tokenId);
          }
          return Promise.resolve();
        },
      },
      feed: {
        publish(keys) {
          published.push(...keys.map(({ tokenId }) => tokenId));
          return Promise.resolve();
        },
        renewed(from, to, serves) {
          reported.push([from, to]);
          if (serves) served.push(serves.asked);
          return Promise.resolve();
        },
        askedRenewal: () => Promise.resolve(mark.asked > (served.at(-1) ?? 0) ? { ...mark } : null),
      },
      changes: {
        renewedOn: () => (usersUntil() > -Infinity ? { since: -Infinity, until: usersUntil() } : null),
      },
      clock,
      pause: (ms) => {
        clock.pass(ms);
        return Promise.resolve();
      },
    });
    return {
      masters,
      /** What it asked the record for since the last call. */
      asked: () => asked.splice(0),
      tick: () => {
        renewals.tick();
      },
      ended: () => renewals.ended(),
      release: () => renewals.release(),
      held: () => [...renewals.held().keys()],
      /** A tick, and what comes of it. @returns the failure that it reports. */
      async run(): Promise<unknown> {
        let failure: unknown = null;
        try {
          renewals.tick();
        } catch (error) {
          failure = error;
        }
        await renewals.ended();
        return failure;
      },
      cutOff(is = true) {
        isCutOff = is;
      },
      /** Called whenever it reads the record. */
      meanwhile(act: (range: Range) => unknown) {
        meanwhile = act;
      },
    };
  }

  return {
    clock,
    ends,
    published,
    reported,
    replica,
    end: (tokenId: number, ago = 0, userId = 1) => {
      ends.push({ key: { userId, tokenId }, at: clock.now() - ago });
    },
    /** Somebody asks for a full renewal of the feed. */
    ask: () => void mark.asked++,
    /** The numbers of which the feed was told that they are served. */
    served,
    usersUntil: (at: number) => {
      usersUntil = () => at;
    },
    /** Ticks of these replicas every 250 ms. */
    pass: async (ms: number, ...replicas: { run: () => Promise<unknown> }[]) => {
      for (let passed = 0; passed < ms; passed += 250) {
        clock.pass(250);
        for (const each of replicas) await each.run();
      }
    },
  };
}

test('one of three replicas renews an end, six times', async (t) => {
  const { clock, end, replica, pass } = aWorld();
  const server = new Server();
  const replicas = ['a', 'b', 'c'].map((name) => replica(name, { m: server })) as [
    ReturnType<typeof replica>,
    ...ReturnType<typeof replica>[],
  ];
  await pass(35_000, ...replicas);
  t.equal(server.lease?.replica, 'a');
  for (const each of replicas) each.asked();
  const settledAt = clock.now() + 1;
  clock.pass(1);
  end(5);
  await pass(65_000, ...replicas);
  const [a = [], ...others] = replicas.map(({ asked }) => asked());
  t.strictSame(others.flat(), [], 'the others ask the record nothing');
  // The second tick is the first that is due after it.
  const covers = a.filter((range, i) => 'ago' in range && 250 * (i + 1) <= range.ago);
  t.equal(covers.length, 6, `since ${settledAt}`);
  t.strictSame([...server.tombstones], [5]);
});

const isFull = (range: Range) => 'ago' in range && range.ago >= 60_000;

test('the holder of the feed renews in full when it is asked', async (t) => {
  const { ask, reported, replica, pass } = aWorld();
  const server = new Server();
  const [a, b] = [replica('a', { m: server }), replica('b', { m: server })];
  await pass(1000, a, b);
  const fulls = async () => {
    const before = reported.length;
    await pass(1000, a, b);
    return reported.length - before;
  };
  t.equal(await fulls(), 0);
  ask();
  t.equal(await fulls(), 1);
  t.equal(await fulls(), 0);
  ask();
  a.cutOff();
  await pass(250, a);
  a.cutOff(false);
  t.equal(await fulls(), 1, 'one that failed is repeated');
  const other = aWorld();
  const [feedMaster, second] = [new Server(), new Server()];
  feedMaster.before = () => Promise.reject(new AuthError('unavailable'));
  const c = other.replica('c', { m: feedMaster, n: second });
  await other.pass(1000, c);
  c.asked();
  other.ask();
  await other.pass(1000, c);
  t.notOk(c.asked().some(isFull), 'other masters have nothing to do with it');
});

test('a renewal serves who asked before it read the record, once users are renewed too', async (t) => {
  const { clock, ask, usersUntil, served, replica, pass } = aWorld();
  const a = replica('a', { m: new Server() });
  await pass(1000, a);
  ask();
  a.meanwhile(() => {
    a.meanwhile(() => undefined);
    ask();
  });
  usersUntil(clock.monotonic());
  await pass(250, a);
  t.strictSame(served, [], 'changed users are not renewed since');
  usersUntil(Infinity);
  await pass(250, a);
  t.strictSame(served, [1], 'not who asked during the read');
  await pass(3000, a);
  t.strictSame(served, [1, 2]);
});

test('whoever keeps asking gets a full renewal a second, or a tenth of the time if they take long', async (t) => {
  for (const [took, most] of [
    [0, 10],
    [400, 3],
  ] as const) {
    const { clock, ask, replica, pass } = aWorld();
    const a = replica('a', { m: new Server() });
    await pass(1000, a);
    a.asked();
    a.meanwhile((range) => {
      if (isFull(range)) clock.pass(took);
    });
    const until = clock.monotonic() + 10_000;
    while (clock.monotonic() < until) {
      ask();
      await pass(250, a);
    }
    const fulls = a.asked().filter(isFull).length;
    t.ok(fulls >= most - 1 && fulls <= most, `${fulls} of ${took} ms`);
  }
});

test('if the holder is gone, another one has renewed the last minute within 850 ms', async (t) => {
  const { clock, end, replica, pass } = aWorld();
  const server = new Server();
  const [a, b, c] = [replica('a', { m: server }), replica('b', { m: server }), replica('c', { m: server })];
  await pass(1000, a, b, c);
  const since = clock.now();
  end(5, 1000);
  // It saw the last move as late as it may.
  clock.pass(249);
  while (!server.tombstones.has(5)) {
    await b.run();
    if (!server.tombstones.has(5)) clock.pass(250);
  }
  t.ok(clock.now() - since <= 850, `${clock.now() - since} ms`);
  t.equal(server.lease?.replica, 'b');
  await pass(1000, c, b);
  t.equal(server.lease?.replica, 'b');
  t.strictSame(c.asked(), []);

  await a.run();
  await pass(1000, a, b);
  t.equal(server.lease?.replica, 'b', 'who comes back waits for its turn');
});

test('a holder that cannot read the record loses the lease, and does not get it back for that', async (t) => {
  const { end, replica, pass } = aWorld();
  const server = new Server();
  const [a, b] = [replica('a', { m: server }), replica('b', { m: server })];
  await pass(1000, a, b);
  a.cutOff();
  end(5);
  await pass(1000, a, b);
  t.equal(server.lease?.replica, 'b');
  t.ok(server.tombstones.has(5));
  t.equal(await a.run(), null, 'who does not hold it has nothing to report');
});

test('after an outage of the record, one renewal covers all of it', async (t) => {
  const { end, replica, pass } = aWorld();
  const server = new Server();
  const a = replica('a', { m: server });
  await pass(1000, a);
  a.cutOff();
  t.equal(await a.run(), null);
  await pass(10_000, a);
  t.match(await a.run(), { code: 'unavailable' });
  for (const ago of [9000, 5000, 1000]) end(ago, ago);
  a.cutOff(false);
  await a.run();
  t.equal(server.tombstones.size, 3);
  t.equal(await a.run(), null);
  t.equal(server.lease?.full, server.moves[1]?.full, 'a short one was enough');

  a.cutOff();
  await pass(300_000, a);
  end(300, 290_000);
  a.cutOff(false);
  await a.run();
  t.ok(server.tombstones.has(300));
});

test('another server gets the last minute at once, from a holder that lives or from the next one', async (t) => {
  const { clock, end, replica, pass } = aWorld();
  let server = new Server();
  const [a, b] = [replica('a', { m: server }), replica('b', { m: server })];
  await pass(5000, a, b);
  end(1, 59_000);
  server = server.promoted();
  for (const each of [a, b]) each.masters.m = server;
  await a.run();
  t.ok(server.tombstones.has(1));
  t.match(server.lease, { replica: 'a', server: "one'" });

  await pass(5000, a, b);
  end(2, 59_000);
  server = server.promoted();
  b.masters.m = server;
  const since = clock.now();
  await pass(750, a, b);
  t.ok(server.tombstones.has(2), 'the holder stays on the old one');
  t.ok(clock.now() - since <= 850);
  t.equal(server.lease?.replica, 'b');
  end(3);
  await pass(250, a, b);
  t.ok(server.tombstones.has(3), 'and so does what ends there from now on');
  t.ok(a.masters.m?.tombstones.has(3));
});

test('a copy with an older lease is renewed by whom that lease names, from the last minute on', async (t) => {
  const { end, replica, pass } = aWorld();
  const server = new Server();
  const [a, b] = [replica('a', { m: server }), replica('b', { m: server })];
  await pass(40_000, a, b);
  const copy = server.promoted();
  await pass(5000, a, b);
  end(1, 59_000);
  for (const each of [a, b]) each.masters.m = copy;
  await b.run();
  await a.run();
  t.ok(copy.tombstones.has(1));
  t.equal(copy.lease?.replica, 'a');
});

test('each master has its own holder, who sends its keys only; that of the feed publishes', async (t) => {
  const { end, published, replica, pass } = aWorld();
  const [odd, even] = [new Server((id) => id % 2 === 1), new Server((id) => id % 2 === 0)];
  const a = replica('a', { odd, gone: odd });
  await a.run();
  Reflect.deleteProperty(a.masters, 'gone');
  const b = replica('b', { odd, even });
  a.masters.even = even;
  even.lease = { replica: 'b', moves: 1, server: 'one', full: 1 };
  end(11, 0, 1);
  end(12, 0, 2);
  a.masters.even = even;
  await pass(250, a);
  t.strictSame([...odd.tombstones], [11]);
  t.strictSame([...even.tombstones], []);
  await pass(250, b);
  t.strictSame([...even.tombstones], [12]);
  t.strictSame(published.splice(0), [11, 12], 'also those of others');
  await pass(250, a, b);
  t.strictSame(published, [11, 12]);
});

test('the lease moves with each page, and a replica that has lost it goes on without it', async (t) => {
  const { clock, ends, replica, reported } = aWorld();
  const server = new Server();
  const a = replica('a', { m: server });
  for (let i = 1; i <= 2500; i++) ends.push({ key: { userId: 1, tokenId: i }, at: clock.now() - 30_000 + i });
  await a.run();
  t.strictSame(
    server.moves.map(({ moves, full }) => [moves, full]),
    [
      [1, 0],
      [2, 0],
      [3, 0],
      [4, 4],
    ],
  );
  t.equal(server.tombstones.size, 2500);
  t.match(a.asked(), [{ ago: 60_000 }, { id: 1000 }, { id: 2000 }]);

  server.tombstones.clear();
  server.id = 'two';
  reported.length = 0;
  const taken = { replica: 'b', moves: 100, server: 'two', full: 100 };
  a.meanwhile(() => {
    server.lease = taken;
  });
  await a.run();
  t.equal(server.tombstones.size, 2500, 'the newest end is on the last page');
  t.equal(server.lease, taken);
  t.strictSame(reported, [], 'the feed hears of it from the next holder');
  a.asked();
  a.meanwhile(() => undefined);
  await a.run();
  t.strictSame(a.asked(), []);
});

test('a replica that stops tells the feed of a last renewal, and leaves its masters to others at once', async (t) => {
  const { end, replica, reported, pass } = aWorld();
  const [odd, even] = [new Server((id) => id % 2 === 1), new Server((id) => id % 2 === 0)];
  const [a, b] = [replica('a', { odd, even }), replica('b', { odd, even })];
  await pass(20_000, a, b);
  even.lease = { replica: 'b', moves: 900, server: 'one', full: 900 };
  await a.run();
  reported.length = 0;
  end(11, 59_000);
  await a.release();
  t.ok(odd.tombstones.has(11));
  t.strictSame(reported, [[79_750, 0]]);
  t.match(
    [odd.lease, even.lease],
    [
      { replica: '', server: 'one' },
      { replica: 'b', moves: 900 },
    ],
  );
  await b.run();
  t.equal(odd.lease?.replica, 'b');

  const asked = odd.moves.length;
  await a.release();
  t.equal(odd.moves.length, asked, 'it holds nothing any more');
});

test('the feed learns what full renewals cover, and no more than changed users do', async (t) => {
  const { clock, reported, replica, pass, usersUntil } = aWorld();
  const server = new Server();
  const [a, b] = [replica('a', { m: server }), replica('b', { m: server })];
  a.meanwhile(() => {
    clock.pass(100);
  });
  await a.run();
  t.strictSame(reported.splice(0), [[60_000, 100]], 'with its own duration');
  a.meanwhile(() => undefined);
  await pass(30_500, a, b);
  t.strictSame(reported.splice(0), [[90_000, 0]], 'from then on');
  await pass(1000, b);
  t.strictSame(reported.splice(0), [[60_000, 0]], 'the next holder reports for itself');
  usersUntil(clock.monotonic());
  await pass(30_000, b);
  t.strictSame(reported, [[90_000, 29_500]], 'changed users are behind');
});

test('after a start, the feed hears of a renewal once changed users were renewed too', async (t) => {
  const { clock, reported, replica, pass, usersUntil } = aWorld();
  const a = replica('a', { m: new Server() });
  usersUntil(-Infinity);
  await pass(1000, a);
  t.strictSame(reported, []);
  usersUntil(clock.monotonic());
  await pass(500, a);
  t.strictSame(reported, [[61_000, 1000]], 'of what the full one covered');
});

test('a renewal that reads the record late is followed by a full one', async (t) => {
  const { clock, replica, pass } = aWorld();
  const a = replica('a', { m: new Server() });
  await pass(1000, a);
  a.asked();
  a.meanwhile(() => {
    clock.pass(400);
  });
  await pass(250, a);
  a.meanwhile(() => undefined);
  await pass(500, a);
  t.match(
    a.asked().map((range) => ('ago' in range ? range.ago : NaN)),
    [1000, 60_000, 1000],
  );
});

test('a master that hangs delays no other one, and a failure is told until it works', async (t) => {
  const { clock, end, replica, pass } = aWorld();
  const [hanging, other] = [new Server((id) => id === 1), new Server((id) => id === 2)];
  const a = replica('a', { hanging, other });
  await pass(1000, a);
  const { promise, resolve } = deferred<undefined>();
  hanging.before = () => promise;
  end(11, 0, 1);
  end(12, 0, 2);
  for (let i = 0; i < 3; i++) {
    a.tick();
    await new Promise(setImmediate);
  }
  t.ok(other.tombstones.has(12));
  clock.pass(10_000);
  a.tick();
  clock.pass(1);
  t.throws(
    () => {
      a.tick();
    },
    { message: 'no end of the renewal on hanging' },
  );
  let hasEnded = false;
  const ended = a.ended().then(() => {
    hasEnded = true;
  });
  await new Promise(setImmediate);
  t.notOk(hasEnded);
  hanging.before = () => Promise.reject(new AuthError('unavailable'));
  resolve(undefined);
  await ended;
  await a.run();
  t.match(await a.run(), { code: 'unavailable' });
  Reflect.deleteProperty(a.masters, 'hanging');
  t.equal(await a.run(), null, 'it is no master any more');
  Reflect.deleteProperty(a.masters, 'other');
  t.match(await a.run(), { code: 'unavailable' });
  await pass(300_000);
  a.asked();
  a.masters.other = other;
  await a.run();
  t.match(a.asked(), [{ ago: 340_751 }], 'it remembers when it last renewed there');
});

test('back on a server that it had left, the feed hears of what was renewed there only', async (t) => {
  const { replica, reported, pass } = aWorld();
  const server = new Server();
  const a = replica('a', { m: server });
  await pass(40_000, a);
  a.masters.m = server.promoted();
  await pass(100_000, a);
  reported.length = 0;
  a.masters.m = server;
  await pass(250, a);
  t.strictSame(reported, [[60_000, 0]]);
});

test('a master that is not to be seen for a moment is renewed in full, so that its users are', async (t) => {
  const { replica, pass } = aWorld();
  const [server, other] = [new Server(), new Server()];
  const a = replica('a', { m: server, n: other });
  await pass(1000, a);
  const full = other.lease?.full ?? NaN;
  // The one without the feed reads first, because the other one looks first whether somebody asks.
  a.meanwhile(() => {
    a.meanwhile(() => undefined);
    Reflect.deleteProperty(a.masters, 'n');
    a.tick();
    a.masters.n = other;
  });
  await pass(250, a);
  t.strictSame(a.held(), ['m']);
  await pass(250, a);
  t.strictSame(a.held(), ['m', 'n']);
  t.ok((other.lease?.full ?? NaN) > full);
});
