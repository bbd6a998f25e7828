import { PassThrough } from 'node:stream';
import { test } from 'tap';
import { confirm, requireConfirmation } from '../../src/cli/confirm.ts';

function aTerminal(isTTY = true) {
  const [input, output] = [Object.assign(new PassThrough(), { isTTY }), new PassThrough()];
  return { input, output };
}

test('only y and yes confirm', async (t) => {
  for (const [answer, expected] of Object.entries({
    y: true,
    ' YES ': true,
    '': false,
    n: false,
    yep: false,
  })) {
    const terminal = aTerminal();
    const confirmed = confirm('Continue?', terminal);
    terminal.input.write(`${answer}\n`);
    t.equal(await confirmed, expected, answer);
    t.equal(String(terminal.output.read()), 'Continue? [y/N] ');
  }
});

test('a terminal that closes does not confirm', async (t) => {
  const terminal = aTerminal();
  const confirmed = confirm('Continue?', terminal);
  terminal.input.end();
  t.equal(await confirmed, false);
});

test('without a terminal, only --yes confirms', (t) => {
  t.throws(() => {
    requireConfirmation('recover', false, aTerminal(false));
  }, /give --yes/);
  requireConfirmation('recover', true, aTerminal(false));
  requireConfirmation('recover', false, aTerminal());
  t.end();
});
