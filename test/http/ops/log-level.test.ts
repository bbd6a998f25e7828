import { Writable } from 'node:stream';
import { pino } from 'pino';
import { test, type Test } from 'tap';
import { buildOpsApp } from '../../../src/app.ts';
import { logLines } from '../../support/log-lines.ts';

async function ops(t: Test, remoteAddress = '127.0.0.1') {
  let written = '';
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written += chunk.toString();
      done();
    },
  });
  const logger = pino({ level: 'info' }, stream);
  const app = await buildOpsApp({
    logger,
    readiness: () => Promise.resolve({ ready: true, draining: false, checks: {} }),
    metrics: () => Promise.resolve(''),
  });
  t.teardown(() => app.close());
  const put = (level: string) => app.inject({ method: 'PUT', url: `/log-level/${level}`, remoteAddress });
  const get = async () =>
    (await app.inject({ url: '/log-level', remoteAddress })).json<{ level: string }>().level;
  return { logger, put, get, lines: () => logLines(written) };
}

test('the level changes while the service runs, also for requests that come later', async (t) => {
  const { logger, put, get, lines } = await ops(t);
  logger.child({ reqId: 'before' }).debug('unseen');
  t.equal(await get(), 'info');
  t.equal((await put('debug')).statusCode, 200);
  t.equal(await get(), 'debug');
  logger.child({ reqId: 'after' }).debug('seen');
  t.match(lines(), [
    { msg: 'the log level changes', level: 40, from: 'info', to: 'debug' },
    { msg: 'the log level has changed' },
    { reqId: 'after', msg: 'seen' },
  ]);
});

test('a log that falls silent says so first, and one that speaks again says so too', async (t) => {
  const { put, lines } = await ops(t);
  await put('silent');
  t.match(lines(), [{ msg: 'the log level changes', to: 'silent' }]);
  await put('info');
  t.match(lines().slice(1), [{ msg: 'the log level has changed', from: 'silent' }]);
});

test('nobody from elsewhere changes it, though they may look', async (t) => {
  for (const address of ['10.0.0.7', '::ffff:10.0.0.7', '2001:db8::1', '12.7.0.0']) {
    const { put, get } = await ops(t, address);
    t.equal((await put('silent')).statusCode, 403, address);
    t.equal(await get(), 'info');
  }
  for (const address of ['::1', '::ffff:127.0.0.1', '127.0.0.2']) {
    const { put } = await ops(t, address);
    t.equal((await put('silent')).statusCode, 200, address);
  }
});

test('what is no level changes nothing', async (t) => {
  const { put, get } = await ops(t);
  for (const level of ['loud', 'INFO', '']) t.not((await put(level)).statusCode, 200, level);
  t.equal(await get(), 'info');
});
