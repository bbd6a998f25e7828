import fc from 'fast-check';
import { test } from 'tap';
import { readEvents, type StreamEvent } from '../src/event-stream.ts';

async function* bytes(...chunks: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const chunk of chunks) yield await Promise.resolve(Buffer.from(chunk));
}

async function read(...chunks: (string | Uint8Array)[]): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  for await (const event of readEvents(bytes(...chunks))) events.push(event);
  return events;
}

const STREAM = [
  'retry: 1000\n\n: a comment\n\n',
  'event: snapshot\nid: a-1\ndata: {"tokens":[1]}\n\n',
  'id: a-2\r\nevent: revoked\r\ndata: {"token":2}\r\n\r\n',
  'data:no space\ndata: two: colons\ndata\n\n',
  'id: a-3\n\n',
  'event: heartbeat\n\n',
  'data: ü€\u2028𝄞\n\n',
  'data: cut off',
].join('');

const EVENTS: StreamEvent[] = [
  { event: 'snapshot', data: '{"tokens":[1]}', id: 'a-1' },
  { event: 'revoked', data: '{"token":2}', id: 'a-2' },
  { event: 'message', data: 'no space\ntwo: colons\n', id: undefined },
  { event: 'message', data: '', id: 'a-3' },
  { event: 'message', data: 'ü€\u2028𝄞', id: undefined },
];

test('reads fields, comments and lines by the standard, and no unfinished event', async (t) => {
  t.strictSame(await read(STREAM), EVENTS);
});

test('reads the same for any split of the bytes', async (t) => {
  const whole = Buffer.from(STREAM);
  const cuts = fc.array(fc.nat(whole.length), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(cuts, async (at) => {
      const sorted = [0, ...at.toSorted((a, b) => a - b), whole.length];
      const chunks = sorted.slice(1).map((end, i) => whole.subarray(sorted[i], end));
      t.strictSame(await read(...chunks), EVENTS);
    }),
    { numRuns: 200 },
  );
});

test('gives up an event that never ends', async (t) => {
  const line = `data: ${'x'.repeat(1_000_000)}`;
  await t.rejects(read(...Array<string>(5).fill(line)), /too long/, 'in one line');
  await t.rejects(read(...Array<string>(5).fill(`${line}\n`)), /too long/, 'in many');
  t.equal((await read(...Array<string>(5).fill(`${line}\n\n`))).length, 5, 'but many finished ones are fine');
});
