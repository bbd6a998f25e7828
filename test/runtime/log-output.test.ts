import { test } from 'tap';
import { makeLogOutput } from '../../src/runtime/log-output.ts';

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
  log.write('1\n');
  t.equal(log.writeNow('2\n'), false);
  t.equal(log.writeNow('3\n'), false);
  t.equal(log.dropped(), 3);
  log.flushSync();
  t.strictSame(missing, [], 'it does not work again');
  isGone = false;
  t.equal(log.writeNow('4\n'), true, 'a named pipe may get a new reader');
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
