import { test } from 'tap';
import { makeProgressBar } from '../../src/cli/progress-bar.ts';

function aTerminal(isTTY: boolean) {
  const written: string[] = [];
  return { isTTY, write: (text: string) => written.push(text), written };
}

test('a progress bar replaces its line on a terminal, and is removed at the end', (t) => {
  const terminal = aTerminal(true);
  const bar = makeProgressBar(true, terminal);
  bar.show(0.5, '7 imported');
  bar.show(1.2, '9 imported');
  bar.clear();
  t.strictSame(terminal.written, [
    `\r\x1b[K[${'#'.repeat(15)}${'-'.repeat(15)}] 50 %  7 imported`,
    `\r\x1b[K[${'#'.repeat(30)}] 100 %  9 imported`,
    '\r\x1b[K',
  ]);
  t.end();
});

test('without a terminal, or if it is not wanted, there is none', (t) => {
  for (const [isWanted, isTTY] of [
    [true, false],
    [false, true],
  ] as const) {
    const terminal = aTerminal(isTTY);
    const bar = makeProgressBar(isWanted, terminal);
    bar.show(0.5, 'x');
    bar.clear();
    t.strictSame(terminal.written, []);
  }
  t.end();
});
