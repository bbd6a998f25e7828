import { execFileSync, spawn } from 'node:child_process';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';
import { valueOf } from '../support/exposition.ts';
import { testFolder } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { answersHttp } from '../support/server-process.ts';
import { until } from '../support/until.ts';

const SERVER = new URL('../../src/server.js', import.meta.url).pathname;
const LOGGER = new URL('../../src/runtime/logger.js', import.meta.url).href;

/** Linux's pipe. */
const PIPE_BYTES = 65_536;

/** A pipe whose reader has stopped: it is open and reads nothing, until the test calls `read`. */
function stoppedReader(t: Test) {
  const path = join(testFolder(t), 'pipe');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const fd = openSync(path, constants.O_WRONLY);
  t.teardown(() => {
    closeSync(fd);
    closeSync(reader);
  });
  const read = () => {
    const bytes = Buffer.alloc(2 * PIPE_BYTES);
    return bytes.toString('utf8', 0, readSync(reader, bytes));
  };
  return { fd, read };
}

/** The service with this standard output. Its log cannot be asked for the ports. */
async function serviceWith(t: Test, stdout: number) {
  const [port, opsPort] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, [SERVER], {
    env: bareEnvironment({
      PORT: String(port),
      OPS_PORT: String(opsPort),
      DATABASE_URL: (await testDatabase(t)).url,
      DATA_DIR: testFolder(t),
      SCRYPT_LOG_N: '4',
      DRAIN_DELAY: '0',
      SHUTDOWN_TIMEOUT: '5',
      // Every refused request leaves a line, so the pipe fills soon.
      LOG_LEVEL: 'trace',
    }),
    stdio: ['ignore', stdout, 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const [url, opsUrl] = [port, opsPort].map((each) => `http://127.0.0.1:${each}`) as [string, string];
  await until(() => answersHttp(`${opsUrl}/health/live`));
  await until(async () => (await fetch(`${opsUrl}/health/ready`)).ok);
  return { url, opsUrl, child };
}

test('the service serves and ends although the reader of its log has stopped', async (t) => {
  const { fd, read } = stoppedReader(t);
  const { url, child } = await serviceWith(t, fd);
  for (let sent = 0; sent < PIPE_BYTES; sent += 150) await fetch(`${url}/nowhere`);
  await signUpOver(url);

  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  t.strictSame(await ended, [0, null]);
  const text = read();
  t.match(text, '"msg":"serving"');
  t.notMatch(text, '"msg":"stopped"', 'the pipe was full');
});

test('the service serves and ends although the disk of its log is full', async (t) => {
  const full = openSync('/dev/full', 'w');
  const { url, opsUrl, child } = await serviceWith(t, full);
  closeSync(full);
  await signUpOver(url);
  const metrics = await (await fetch(`${opsUrl}/metrics`)).text();
  t.equal(valueOf(metrics, 'latchkey_log_lines_dropped_total'), 0, 'these few lines still wait');

  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  t.strictSame(await ended, [0, null]);
});

test('lines beyond the bound are dropped and counted, and the process ends', async (t) => {
  const { fd } = stoppedReader(t);
  const code = `import { makeLogger } from '${LOGGER}';
    const { logger, output } = makeLogger('info', false);
    for (let i = 0; i < 100_000; i++) logger.info('a line of some length');
    console.error(output.dropped());
    process.exit();`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    env: bareEnvironment(),
    stdio: ['ignore', fd, 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let dropped = '';
  child.stderr?.on('data', (text: Buffer) => (dropped += text.toString()));
  t.strictSame(await once(child, 'close'), [0, null]);
  t.ok(Number(dropped) > 0, `${dropped.trim()} lines`);
});
