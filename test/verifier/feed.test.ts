import { test, type Test } from 'tap';
import type { FeedMessage } from '../../src/verifier/feed-message.ts';
import { followFeed } from '../../src/verifier/feed.ts';
import { RefusedError } from '../../src/verifier/latchkey.ts';
import { deferred } from '../support/deferred.ts';
import { existing } from '../support/redis-server.ts';
import { until } from '../support/until.ts';

/** A connection that the test holds. */
interface Connection {
  from: string | null;
  signal: AbortSignal;
  at: number;
  answer(): void;
  refuse(error: Error): void;
  write(text: string): void;
  end(): void;
}

const TIMES = { silence: 200, pause: 20, maxPause: 80, refusedPause: 300, good: 100 };

function following(t: Test, times: Partial<typeof TIMES> = {}) {
  const connections: Connection[] = [];
  const messages: FeedMessage[] = [];
  const errors: (Error | null)[] = [];
  let connected = 0;
  const feed = followFeed({
    times: { ...TIMES, ...times },
    onConnect: () => connected++,
    onMessage: (message) => messages.push(message),
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
      });
      return promise;
    },
  });
  t.teardown(() => feed.close());
  const connection = async (i: number): Promise<Connection> => {
    await until(() => connections.length > i);
    return existing(connections[i]);
  };
  return { feed, connections, connection, messages, errors, connected: () => connected };
}

const beat = (id: string) => `id: ${id}\nevent: heartbeat\ndata: {}\n\n`;
const revoked = (id: string, token: number) => `id: ${id}\nevent: revoked\ndata: {"token":${token}}\n\n`;
const part = (tokens: number[], isLast: boolean, id = '') =>
  `${id}event: snapshot\ndata: ${JSON.stringify({ tokens, users: [], last: isLast, remember: 905 })}\n\n`;

test('passes on what it is sent, and comes back for what follows', async (t) => {
  const { connection, messages, errors, connected } = following(t);
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
  t.equal(errors.at(-1), null, 'a heartbeat says that all is well');
  first.end();
  const second = await connection(1);
  t.equal(second.from, 'a-3', 'also after an event that it does not know');
  t.equal(connected(), 1);
  second.answer();
  await until(() => connected() === 2);
});

test('a snapshot that was cut off is asked for anew', async (t) => {
  const { connection, messages } = following(t);
  const first = await connection(0);
  first.answer();
  first.write(part([1], false));
  await until(() => messages.length === 1);
  first.end();
  t.equal((await connection(1)).from, null);
});

test('after an event that it cannot read it asks for everything', async (t) => {
  const { connection, errors } = following(t);
  const first = await connection(0);
  first.answer();
  first.write(beat('a-1') + 'id: a-2\nevent: revoked\ndata: {"token":"eleven"}\n\n');
  t.equal((await connection(1)).from, null);
  t.match(errors.at(-1), /cannot be read/);
  t.ok(first.signal.aborted, 'and the old connection is not left open');
});

test('gives up a connection that is silent, and one that is never answered', async (t) => {
  const { connection, errors } = following(t);
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

test('keeps one that speaks', async (t) => {
  const { connections, connection, messages } = following(t);
  const first = await connection(0);
  first.answer();
  for (let i = 0; i < 20; i++) {
    first.write(beat(`a-${i}`));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  await until(() => messages.length === 20);
  t.equal(connections.length, 1);
});

test('comes back at once when a good connection ends, and ever later when none is to be had', async (t) => {
  const { connection, connections } = following(t, { silence: 10_000, pause: 40, maxPause: 160 });
  const first = await connection(0);
  first.answer();
  await new Promise((resolve) => setTimeout(resolve, 150));
  first.end();
  for (let i = 1; i < 8; i++) (await connection(i)).refuse(new Error('away'));
  // Never early; how late is the machine's matter.
  const pauses = connections.slice(1).map(({ at }, i) => at - (connections[i]?.at ?? 0));
  for (const [i, least] of [20, 40, 80, 80, 80].entries())
    t.ok((pauses[i + 1] ?? 0) >= least * 0.95, `pause ${i + 1}: ${pauses[i + 1]} ms, ${least} at least`);
});

test('a connection that ends right away is not dialled in a circle', async (t) => {
  const { connection, connections } = following(t, { pause: 50, maxPause: 100 });
  for (let i = 0; i < 4; i++) {
    const each = await connection(i);
    each.answer();
    each.write(beat('a-1'));
    each.end();
  }
  t.ok((connections[3]?.at ?? 0) - (connections[0]?.at ?? 0) >= 25 + 50 + 50 - 5);
});

test('refused as a client, it waits for longer and says why', async (t) => {
  for (const [status, least] of [
    [401, 150],
    [403, 150],
    [503, 0],
  ] as const) {
    const { connection, connections, errors, feed } = following(t);
    (await connection(0)).refuse(new RefusedError(status, '/api/auth/revocations'));
    await connection(1);
    t.match(errors.at(0), { status });
    t.ok((connections[1]?.at ?? 0) - (connections[0]?.at ?? 0) >= least * 0.95, String(status));
    await feed.close();
  }
});

test('closed, it hangs up and dials no more', async (t) => {
  const { connection, connections, feed, errors } = following(t);
  const first = await connection(0);
  first.answer();
  await feed.close();
  t.ok(first.signal.aborted);
  t.strictSame(errors, []);
  await new Promise((resolve) => setTimeout(resolve, 100));
  t.equal(connections.length, 1);
});

test('closed while it waits, it does not wait on', async (t) => {
  const { connection, feed } = following(t, { refusedPause: 1_000_000 });
  (await connection(0)).refuse(new RefusedError(401, '/api/auth/revocations'));
  await until(() => true);
  await new Promise((resolve) => setImmediate(resolve));
  await t.resolves(feed.close());
});
