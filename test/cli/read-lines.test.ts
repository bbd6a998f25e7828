import { test } from 'tap';
import { LONGEST_LINE, readLines } from '../../src/cli/read-lines.ts';

async function* chunksOf(text: string | Buffer, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let from = 0; from < bytes.length; from += size)
    yield await Promise.resolve(bytes.subarray(from, from + size));
}

async function linesOf(text: string | Buffer, size: number): Promise<[number, string | null][]> {
  const lines: [number, string | null][] = [];
  for await (const { number, bytes } of readLines(chunksOf(text, size)))
    lines.push([number, bytes && Buffer.from(bytes).toString()]);
  return lines;
}

test('lines are the same however the file is cut into chunks', async (t) => {
  for (const size of [1, 2, 3, 7, 100]) {
    const lines = [
      [1, 'one'],
      [2, ''],
      [3, 'zwölf'],
      [4, 'end'],
    ];
    t.strictSame(await linesOf('one\n\nzwölf\nend', size), lines, 'without a last line end');
    t.strictSame(await linesOf('one\n\nzwölf\nend\n', size), lines, 'with one');
  }
  t.strictSame(await linesOf('', 9), []);
  t.strictSame(await linesOf('\n', 9), [[1, '']]);
});

test('a line may have 16 KiB; a longer one is reported without its bytes, and the next line is read', async (t) => {
  const [fits, long] = ['x'.repeat(LONGEST_LINE), 'y'.repeat(LONGEST_LINE + 1)];
  for (const size of [1000, 1_000_000])
    t.strictSame(await linesOf(`${fits}\n${long}\nlast\n${long}`, size), [
      ...[
        [1, fits],
        [2, null],
        [3, 'last'],
        [4, null],
      ],
    ]);
});

test('no more than one chunk is read ahead, and an endless line takes no memory', async (t) => {
  let produced = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 3000; i++) {
      produced++;
      yield await Promise.resolve(Buffer.from(i < 1000 ? 'a line\n' : 'x'.repeat(64 * 1024)));
    }
  }
  let taken = 0;
  for await (const { bytes } of readLines(endless())) {
    taken++;
    if (taken <= 1000) t.equal(produced, taken);
    else t.equal(bytes, null, 'of 125 MiB');
  }
  t.equal(taken, 1001);
});
