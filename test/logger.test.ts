import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'tap';

const LOGGER = new URL('../src/logger.js', import.meta.url).href;

/** Runs a piece of code that has a `logger`, in a process of its own. @returns the messages on its standard output. */
async function messagesOf(code: string): Promise<string[]> {
  const script = `import { makeLogger } from '${LOGGER}'; const logger = makeLogger('info', false); ${code}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
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
  t.same(await messagesOf(logMany), expected, 'by itself');
  t.same(
    await messagesOf(`${logMany} throw new Error('planted')`),
    expected,
    'by an error that nobody caught',
  );
});

test('writes a line soon, also when no other follows', async (t) => {
  // Killed in a way that leaves it no time to write, but only once its line has arrived.
  const script = `import { makeLogger } from '${LOGGER}'; makeLogger('info', false).info('alone'); setInterval(() => 0, 1000);`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script]);
  const [chunk] = (await once(child.stdout, 'data')) as [Buffer];
  t.match(chunk.toString(), /"msg":"alone"/);
  child.kill('SIGKILL');
  await once(child, 'close');
});
