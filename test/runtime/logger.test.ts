import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'tap';
import { makeLogger } from '../../src/runtime/logger.ts';
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

test('a terminal is written at once, and drops no line', (t) => {
  const { output } = makeLogger('silent', true);
  t.equal(output.writeNow(''), true);
  t.equal(output.dropped(), 0);
  t.end();
});
