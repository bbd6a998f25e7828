import { test } from 'tap';
import { chunkedBody } from './chunked.ts';

const WHOLE = '4\r\nchun\r\n3;name=value\r\nked\r\n0\r\n\r\n';

test('the chunks of an answer make its body', (t) => {
  t.equal(chunkedBody(WHOLE), 'chunked');
  t.equal(chunkedBody('0\r\n\r\n'), '');
  t.equal(chunkedBody('b\r\nwith\r\nlines\r\n0\r\n\r\n'), 'with\r\nlines');
  t.equal(chunkedBody('2\r\nok\r\n0\r\nTrailer: value\r\n\r\n'), 'ok');
  t.end();
});

test('an answer is incomplete until its last chunk has arrived', (t) => {
  for (let length = 0; length < WHOLE.length; length++)
    t.equal(chunkedBody(WHOLE.slice(0, length)), null, `${length} bytes`);
  t.end();
});

test('a chunk without a size is an error', (t) => {
  for (const line of ['chunk', 'xyz', '', '-3', '3 4'])
    t.throws(() => chunkedBody(`${line}\r\n`), new Error(`not the size of a chunk: ${line}`));
  t.end();
});
