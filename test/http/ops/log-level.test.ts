import { Writable } from 'node:stream';
import { pino } from 'pino';
import { test, type Test } from 'tap';
import { buildOpsApp } from '../../../src/app.ts';
import { isFromHere } from '../../../src/http/ops/log-level.ts';
import { LINE_FORMAT } from '../../../src/runtime/logger.ts';
import { logLines } from '../../support/log-lines.ts';

async function ops(t: Test) {
  let written = '';
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written += chunk.toString();
      done();
    },
  });
  const logger = pino({ ...LINE_FORMAT, level: 'info' }, stream);
  const app = await buildOpsApp({
    logger,
    readiness: () => Promise.resolve({ ready: true, draining: false, checks: {}, clock: 'ok' }),
    build: { version: '1', revision: 'unknown' },
    metrics: () => Promise.resolve(''),
  });
  t.teardown(() => app.close());
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const put = (level: string) => fetch(`${url}/log-level/${level}`, { method: 'PUT' });
  const get = async () => ((await (await fetch(`${url}/log-level`)).json()) as { level: string }).level;
  return { app, logger, put, get, lines: () => logLines(written) };
}

test('the level changes at run time, for later requests too', async (t) => {
  const { logger, put, get, lines } = await ops(t);
  logger.child({ reqId: 'before' }).debug('unseen');
  t.equal(await get(), 'info');
  t.equal((await put('debug')).status, 200);
  t.equal(await get(), 'debug');
  logger.child({ reqId: 'after' }).debug('seen');
  t.match(lines(), [
    { msg: 'the log level changes', level: 'warn', from: 'info', to: 'debug' },
    { msg: 'the log level has changed' },
    { reqId: 'after', msg: 'seen' },
  ]);
});

test('a level above warn is refused: warnings always stay in the log', async (t) => {
  const { put, get, lines } = await ops(t);
  for (const level of ['error', 'fatal', 'silent']) t.equal((await put(level)).status, 400, level);
  t.equal(await get(), 'info');
  t.equal((await put('warn')).status, 200);
  t.match(lines(), [{ msg: 'the log level changes' }, { msg: 'the log level has changed', to: 'warn' }]);
});

test('other hosts can read the level but not change it', async (t) => {
  const { app } = await ops(t);
  const from = (remoteAddress: string) =>
    ({ remoteAddress, method: 'PUT', url: '/log-level/debug' }) as const;
  t.equal((await app.inject(from('10.0.0.7'))).statusCode, 403);
  t.equal((await app.inject({ ...from('10.0.0.7'), method: 'GET', url: '/log-level' })).statusCode, 200);
  const here = ['::1', '::ffff:127.0.0.1', '127.0.0.2'];
  const elsewhere = ['10.0.0.7', '::ffff:10.0.0.7', '2001:db8::1', '12.7.0.0', undefined];
  for (const remoteAddress of here) {
    for (const localAddress of here) t.ok(isFromHere({ remoteAddress, localAddress }));
    // A proxy in the pod connects from loopback, but not to loopback.
    for (const localAddress of elsewhere) t.notOk(isFromHere({ remoteAddress, localAddress }));
  }
  for (const remoteAddress of elsewhere) t.notOk(isFromHere({ remoteAddress, localAddress: '127.0.0.1' }));
});

test('an unknown level changes nothing', async (t) => {
  const { put, get } = await ops(t);
  for (const level of ['loud', 'INFO', '']) t.not((await put(level)).status, 200, level);
  t.equal(await get(), 'info');
});
