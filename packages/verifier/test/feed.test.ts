import { test, type Test } from 'tap';
import type { FeedMessage } from '../src/feed-message.ts';
import { followFeed } from '../src/feed.ts';
import { RefusedError } from '../src/connection.ts';
import { unavailable } from '../src/verifier-error.ts';
import { deferred } from '../../../test/support/deferred.ts';
import { existing } from '../../../test/support/redis-server.ts';
import { until } from '../../../test/support/until.ts';

/** Milliseconds, in tests of silence. Elsewhere a busy machine may hold an event back for longer. */
const SILENCE = 200;

/** A connection that the test controls. */
interface Connection {
  from: string | null;
  signal: AbortSignal;
  at: number;
  answer(): void;
  refuse(error: Error): void;
  write(text: string): void;
  end(): void;
  cut(error: Error): void;
}

const TIMES = { silence: 5000, pause: 20, maxPause: 80, refusedPause: 300, good: 100 };

function following(t: Test, times: Partial<typeof TIMES> = {}) {
  const connections: Connection[] = [];
  const messages: FeedMessage[] = [];
  const errors: (Error | null)[] = [];
  const beats: string[] = [];
  let connected = 0;
  const feed = followFeed({
    times: { ...TIMES, ...times },
    onConnect: () => connected++,
    onMessage: (message) => messages.push(message),
    onHeartbeat: (id) => beats.push(`${id} after ${messages.length}`),
    onError: (error) => errors.push(error),
    open(from, signal) {
      const { promise, resolve, reject } = deferred<Response>();
      let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
      const body = new ReadableStream<Uint8Array>({ start: (each) => void (controller = each) });
      signal.addEventListener('abort', () => {
        reject(signal.reason as Error);
        controller?.error(signal.reason);
      });
      connections.push({
        from,
        signal,
        at: performance.now(),
        answer: () => {
          resolve(new Response(body));
        },
        refuse: reject,
        write: (text) => controller?.enqueue(Buffer.from(text)),
        end: () => controller?.close(),
        cut: (error) => controller?.error(error),
      });
      return promise;
    },
  });
  t.teardown(() => feed.close());
  const connection = async (i: number): Promise<Connection> => {
    await until(() => connections.length > i);
    return existing(connections[i]);
  };
  return { feed, connections, connection, messages, errors, beats, connected: () => connected };
}

const beat = (id: string) => `id: ${id}\nevent: heartbeat\ndata: {}\n\n`;
const revoked = (id: string, token: number) => `id: ${id}\nevent: revoked\ndata: {"token":${token}}\n\n`;
const lists = { users: [], statuses: [] };
const part = (tokens: number[], isLast: boolean, id = '') =>
  `${id}event: snapshot\ndata: ${JSON.stringify({ ...lists, tokens, last: isLast, remember: 905 })}\n\n`;

test('delivers events, and reconnects from the last one', async (t) => {
  const { connection, messages, errors, beats, connected } = following(t);
  const first = await connection(0);
  t.equal(first.from, null);
  first.answer();
  first.write(
    part([1], false) +
      part([2], true, 'id: a-1\n') +
      revoked('a-2', 3) +
      beat('a-2') +
      'event: later\ndata: x\nid: a-3\n\n',
  );
  await until(() => messages.length === 4);
  t.strictSame(
    messages.map(({ type }) => type),
    ['snapshot', 'snapshot', 'revoked', 'heartbeat'],
  );
  t.equal(errors.at(-1), null, 'a heartbeat clears the error');
  t.strictSame(beats, ['a-2 after 4'], 'its id is told once it is applied');
  first.end();
  const second = await connection(1);
  t.equal(second.from, 'a-3', 'also after an event that it does not know');
  t.equal(connected(), 1);
  second.answer();
  await until(() => connected() === 2);
});

test('requests an interrupted snapshot again', async (t) => {
  const { connection, messages } = following(t);
  const first = await connection(0);
  first.answer();
  first.write(part([1], false));
  await until(() => messages.length === 1);
  first.end();
  t.equal((await connection(1)).from, null);
});

test('requests a snapshot after an unreadable event', async (t) => {
  const { connection, errors } = following(t);
  const first = await connection(0);
  first.answer();
  first.write(beat('a-1') + 'id: a-2\nevent: revoked\ndata: {"token":"eleven"}\n\n');
  t.equal((await connection(1)).from, null);
  t.match(errors.at(-1), /malformed/);
  t.ok(first.signal.aborted, 'and the old connection is not left open');
});

test('drops a silent connection, and one that is never answered', async (t) => {
  const { connection, errors } = following(t, { silence: SILENCE });
  const first = await connection(0);
  first.answer();
  first.write(beat('a-1'));
  const second = await connection(1);
  t.ok(first.signal.aborted);
  t.match(errors.at(-1), /silent/);
  t.equal(second.from, 'a-1');
  await connection(2);
  t.ok(second.signal.aborted);
});

test('what waited while the process was paused does not count as news', async (t) => {
  const { connection, messages, errors } = following(t, { silence: 10 * SILENCE });
  const first = await connection(0);
  first.answer();
  first.write(beat('a-1'));
  await until(() => messages.length === 1);
  first.write(beat('a-1') + revoked('a-2', 3));
  // Nothing else runs meanwhile, no timer either.
  const since = performance.now();
  while (performance.now() - since < 11 * SILENCE);
  t.equal((await connection(1)).from, 'a-1');
  t.match(errors.at(-1), /silent/);
  t.equal(messages.length, 1);
});

test('keeps a connection that sends data', async (t) => {
  const { connections, connection, messages } = following(t, { silence: 3 * SILENCE });
  const first = await connection(0);
  first.answer();
  for (let i = 0; i < 20; i++) {
    first.write(beat(`a-${i}`));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await until(() => messages.length === 20);
  t.equal(connections.length, 1);
});

test('reconnects at once after a good connection, and backs off while none works', async (t) => {
  const { connection, connections } = following(t, { silence: 10_000, pause: 40, maxPause: 160 });
  const first = await connection(0);
  first.answer();
  await new Promise((resolve) => setTimeout(resolve, 150));
  first.end();
  for (let i = 1; i < 8; i++) (await connection(i)).refuse(new Error('away'));
  // Never early. How late depends on the machine.
  const pauses = connections.slice(1).map(({ at }, i) => at - (connections[i]?.at ?? 0));
  for (const [i, least] of [20, 40, 80, 80, 80].entries())
    t.ok((pauses[i + 1] ?? 0) >= least * 0.95, `pause ${i + 1}: ${pauses[i + 1]} ms, ${least} at least`);
});

test('does not reconnect in a tight loop if connections end at once', async (t) => {
  const { connection, connections } = following(t, { pause: 50, maxPause: 100 });
  for (let i = 0; i < 4; i++) {
    const each = await connection(i);
    each.answer();
    each.write(beat('a-1'));
    each.end();
  }
  t.ok((connections[3]?.at ?? 0) - (connections[0]?.at ?? 0) >= 25 + 50 + 50 - 5);
});

test('waits longer after its credentials are refused, and reports why', async (t) => {
  for (const [status, least] of [
    [401, 150],
    [403, 150],
    [503, 0],
  ] as const) {
    const { connection, connections, errors, feed } = following(t);
    (await connection(0)).refuse(new RefusedError(status, 'unreachable', 'refused'));
    await connection(1);
    t.match(errors.at(0), { answered: status });
    t.ok((connections[1]?.at ?? 0) - (connections[0]?.at ?? 0) >= least * 0.95, String(status));
    await feed.close();
  }
});

test('close ends the connection and stops reconnecting', async (t) => {
  const { connection, connections, feed, errors } = following(t);
  const first = await connection(0);
  first.answer();
  await feed.close();
  t.ok(first.signal.aborted);
  t.strictSame(errors, []);
  await new Promise((resolve) => setTimeout(resolve, 100));
  t.equal(connections.length, 1);
});

test('close ends a backoff at once', async (t) => {
  const { connection, feed } = following(t, { refusedPause: 1_000_000 });
  (await connection(0)).refuse(new RefusedError(401, 'configuration', 'refused'));
  await until(() => true);
  await new Promise((resolve) => setImmediate(resolve));
  await t.resolves(feed.close());
});

test('reports no good connection that the server ends, unless the next one fails', async (t) => {
  const { connection, errors, connected } = following(t, { silence: 10_000, good: 20 });
  const lasting = async (i: number) => {
    const each = await connection(i);
    each.answer();
    await until(() => connected() > i);
    await new Promise((resolve) => setTimeout(resolve, 40));
    return each;
  };
  (await lasting(0)).end();
  const second = await lasting(1);
  t.strictSame(errors, []);
  second.end();
  (await connection(2)).refuse(unavailable('unreachable', 'away'));
  await connection(3);
  t.match(errors, [{ message: 'away' }]);
});

test('reports a connection that breaks off by its code, and quotes no foreign message', async (t) => {
  const { connection, errors } = following(t);
  const first = await connection(0);
  first.answer();
  const cause = Object.assign(new Error('https://user:secret@host'), { code: 'ECONNRESET' });
  first.cut(new TypeError('https://user:secret@host', { cause }));
  await connection(1);
  t.match(errors, [{ reason: 'unreachable', message: 'the feed broke off: ECONNRESET' }]);
});
