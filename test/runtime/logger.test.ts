import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'tap';
import { makeLogger, makeLogOutput, type LogOutput } from '../../src/runtime/logger.ts';
import { bareEnvironment } from '../support/environment.ts';

const LOGGER = new URL('../../src/runtime/logger.js', import.meta.url).href;

/** Runs code with a `logger` in another process. @returns the messages on its standard output. */
async function messagesOf(code: string): Promise<string[]> {
  const script = `import { makeLogger } from '${LOGGER}'; const { logger } = makeLogger('info', false); ${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { env: bareEnvironment() });
  let output = '';
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  await once(child, 'close');
  return output
    .split('\n')
    .filter(Boolean)
    .map((line) => (JSON.parse(line) as { msg: string }).msg);
}

test('loses no line when the process ends', async (t) => {
  const logMany = 'for (let i = 0; i < 1000; i++) logger.info(String(i));';
  const expected = Array.from({ length: 1000 }, (_, i) => String(i));
  t.same(await messagesOf(`${logMany} process.exit()`), expected, 'by process.exit');
  t.same(await messagesOf(logMany), expected, 'by a normal end');
  t.same(await messagesOf(`${logMany} throw new Error('planted')`), expected, 'by an uncaught error');
});

test('writes a line soon, even if no other follows', async (t) => {
  // Ended by SIGKILL, which leaves no time to write, but only after its line has arrived.
  const script = `import { makeLogger } from '${LOGGER}'; makeLogger('info', false).logger.info('alone'); setInterval(() => 0, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { env: bareEnvironment() });
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer];
  t.match(chunk.toString(), /"msg":"alone"/);
  child.kill('SIGKILL');
  await once(child, 'close');
});

/** Writes events; `fate` lists how many were lost, and when all that waited were written. */
function anAudit(log: Pick<LogOutput, 'openAudit'>) {
  const fate: (number | 'written')[] = [];
  const write = log.openAudit({
    onLost: (events) => fate.push(events),
    onWritten: () => fate.push('written'),
  });
  return { write, fate };
}

test('a terminal is written at once, and drops no line', (t) => {
  const { output } = makeLogger('silent', true);
  const { write, fate } = anAudit(output);
  write('');
  t.strictSame([fate, output.dropped()], [[], 0]);
  t.end();
});

/** A pipe that takes some bytes, and refuses the rest until its reader goes on. */
function pipe(room: number) {
  let written = '';
  return {
    writeSome: (bytes: Buffer) => {
      const taken = bytes.subarray(0, room);
      if (taken.length === 0) throw new Error('EAGAIN');
      room -= taken.length;
      written += taken.toString();
      return taken.length;
    },
    read: (bytes: number) => (room += bytes),
    written: () => written,
  };
}

test('a log whose reader has ended drops every line, until it has a new reader', (t) => {
  let isGone = true;
  const written: string[] = [];
  const writeSome = (bytes: Buffer) => {
    if (isGone) throw Object.assign(new Error('broken pipe'), { code: 'EPIPE' });
    written.push(bytes.toString());
    return bytes.length;
  };
  const missing: number[] = [];
  const log = makeLogOutput({ writeSome, onResume: (lines) => missing.push(lines) });
  const { write, fate } = anAudit(log);
  log.write('1\n');
  write('2\n');
  write('3\n');
  t.strictSame(fate, [1, 1], 'told at once');
  t.equal(log.dropped(), 3);
  log.flushSync();
  t.strictSame(missing, [], 'it does not work again');
  isGone = false;
  write('4\n');
  t.strictSame(fate, [1, 1, 'written'], 'a named pipe may get a new reader');
  t.strictSame(written, ['4\n']);
  t.strictSame(missing, [3]);
  t.end();
});

test('a blocked log keeps lines up to a bound, drops the later ones, and says so', (t) => {
  const { writeSome, read, written } = pipe(5);
  const missing: number[] = [];
  const log = makeLogOutput({ writeSome, onResume: (lines) => missing.push(lines), maxWaiting: 10 });
  log.write('first\n');
  log.flush();
  t.equal(written(), 'first', 'a part of a line');
  for (const line of ['2\n', '3\n', '4\n', '5\n', '6\n', '7\n']) log.write(line);
  log.flush();
  t.equal(log.dropped(), 2);
  t.strictSame(missing, [], 'not while it is blocked');

  read(100);
  log.flush();
  t.equal(written(), 'first\n2\n3\n4\n5\n', 'the lines that were kept are complete');
  t.strictSame(missing, [2]);
  log.write('8\n');
  log.flush();
  t.match(written(), /5\n8\n$/);
  t.strictSame(missing, [2], 'once');
  t.end();
});

test('events of the audit trail overtake the lines that wait, and break none', (t) => {
  const { writeSome, read, written } = pipe(5);
  const log = makeLogOutput({ writeSome, onResume: () => undefined });
  const { write, fate } = anAudit(log);
  log.write('first\nsecond\n');
  log.flush();
  t.equal(written(), 'first', 'a part of a line');
  write('event\n');
  log.write('third\n');
  read(4);
  log.flush();
  t.equal(written(), 'first\neve', 'a part of an event');
  write('another\n');
  t.strictSame(fate, [], 'none is lost, and none is written');
  read(100);
  log.flush();
  t.strictSame(fate, ['written']);
  t.equal(written(), 'first\nevent\nanother\nsecond\nthird\n');
  t.end();
});

test('a flood of request lines drops no event, although the reader takes only 3 KB a second', (t) => {
  const { writeSome, read, written } = pipe(0);
  const log = makeLogOutput({ writeSome, onResume: () => undefined });
  const line = (content: object) => `${JSON.stringify(content)}\n`;
  const events: string[] = [];
  const { write, fate } = anAudit(log);
  // Two minutes of 100 ms each.
  for (let turn = 0; turn < 1200; turn++) {
    for (let n = 0; n < 30; n++) log.write(line({ turn, n, filling: 'x'.repeat(180) }));
    const event = line({ log: 'audit', turn, filling: 'x'.repeat(200) });
    events.push(event);
    write(event);
    read(300);
    log.flush();
  }
  t.ok(log.dropped() > 0, 'the flood is too much for the buffer');
  t.notOk(fate.some((each) => each !== 'written'));
  const lines = written().match(/^.*\n/gm) ?? [];
  t.strictSame(
    lines.filter((each) => each.startsWith('{"log":"audit"')),
    events,
  );
  t.ok(lines.length > events.length, 'what the events leave of the reader is for the log');
  t.end();
});

test('events beyond their own bound are dropped, and those that a reader leaves behind are counted', (t) => {
  let code = 'EAGAIN';
  const writeSome = () => {
    throw Object.assign(new Error(code), { code });
  };
  const log = makeLogOutput({ writeSome, onResume: () => undefined });
  const event = `${'x'.repeat(1023)}\n`;
  const { write, fate } = anAudit(log);
  for (let i = 0; i < 1024; i++) write(event);
  t.strictSame(fate, []);
  write(event);
  t.strictSame(fate, [1], '1 MiB waits');
  code = 'EPIPE';
  log.flush();
  t.strictSame(fate, [1, 1024], 'those that waited, without a further event');
  t.equal(log.dropped(), 1025);
  t.end();
});

test('a blocked log is not tried again for each line', (t) => {
  let tries = 0;
  const writeSome = () => {
    tries++;
    throw new Error('ENOSPC');
  };
  const log = makeLogOutput({ writeSome, onResume: () => undefined });
  for (let i = 0; i < 100; i++) log.write('x'.repeat(5000));
  t.equal(tries, 1);
  log.flush();
  t.equal(tries, 2);
  t.end();
});

test('the end of the process does not wait for a blocked log for long', (t) => {
  const writeSome = () => {
    throw new Error('EAGAIN');
  };
  const log = makeLogOutput({ writeSome, onResume: () => undefined });
  log.write('last\n');
  log.flushSync();
  t.equal(log.dropped(), 0, 'it returns');
  t.end();
});
