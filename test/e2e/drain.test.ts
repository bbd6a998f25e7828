import { connect } from 'node:net';
import { test, type Test } from 'tap';
import { signUpOver } from '../support/over-http.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { testDatabase } from '../support/postgres.ts';
import { answersIn } from '../support/raw.ts';
import { readyService, startService, type Service } from '../support/service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const SLOW_POST = [
  'POST /api/auth HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n',
  '{"username":"a",',
  '"password":"b"}',
] as const;

test('after SIGTERM the service is not ready, serves on, finishes requests in flight and exits with 0', async (t) => {
  const service = await readyService(t, { DRAIN_DELAY: '2' });
  const { access_token: token } = await signUpOver(service.url);
  const before = await fetch(`${service.url}/api/user`, { headers: { authorization: `Bearer ${token}` } });
  t.not(before.headers.get('connection'), 'close');
  const slow = open(service, SLOW_POST[0] + SLOW_POST[1]);

  service.process.kill('SIGTERM');
  await until(async () => (await fetch(`${service.opsUrl}/health/ready`)).status === 503);
  t.match(await (await fetch(`${service.opsUrl}/health/ready`)).json(), { status: 'draining' });
  t.equal((await fetch(`${service.opsUrl}/health/live`)).status, 200, 'but alive');
  for (const path of ['/api/user', '/nowhere', '/api/auth/%zz', '/api/auth/verify']) {
    const response = await fetch(`${service.url}${path}`, { headers: { authorization: `Bearer ${token}` } });
    t.ok(response.status < 500, `${path} is served`);
    t.equal(response.headers.get('connection'), 'close', path);
  }

  await until(() => isRefused(service));
  t.equal(service.process.exitCode, null, 'it waits for the request in flight');
  slow.send(SLOW_POST[2]);
  const [answer] = answersIn(await slow.ended);
  t.equal(answer?.status, 401, 'the request in flight is answered');
  t.equal(answer?.header('connection'), 'close');
  t.equal(await service.stop(), 0);
  t.match(service.log(), '"msg":"stopped"');
});

test('an idle connection does not delay the exit', async (t) => {
  const service = await readyService(t, { SHUTDOWN_TIMEOUT: '600', REQUEST_TIMEOUT: '120' });
  const idle = open(service, 'GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => idle.received().includes('not_found'));
  t.equal(await service.stop(), 0);
  t.equal(answersIn(await idle.ended).length, 1);
});

test('a connection that a client opened in advance does not delay the exit', async (t) => {
  const service = await readyService(t, { SHUTDOWN_TIMEOUT: '600', REQUEST_TIMEOUT: '120' });
  const unused = [open(service, ''), open({ ...service, url: service.opsUrl }, '')];
  await until(() => unused.every((each) => each.isOpen()));
  t.equal(await service.stop(), 0);
  for (const { ended } of unused) t.equal(await ended, '', 'no answer');
});

test('SHUTDOWN_TIMEOUT cuts a request that never completes', async (t) => {
  const service = await readyService(t, { SHUTDOWN_TIMEOUT: '1', REQUEST_TIMEOUT: '120' });
  const stuck = open(service, SLOW_POST[0] + SLOW_POST[1]);
  await until(() => stuck.isOpen());
  t.equal(await service.stop(), 0);
  t.equal(await stuck.ended, '', 'no answer');
});

test('SHUTDOWN_TIMEOUT cuts a request that waits for a hanging store', async (t) => {
  const { url } = await testDatabase(t);
  const proxy = await faultProxy(t, url);
  const settings = { DATABASE_URL: proxy.url, SHUTDOWN_TIMEOUT: '1', DATABASE_TIMEOUT: '60000' };
  const service = await readyService(t, settings);
  proxy.set('hang');
  const stuck = open(service, SLOW_POST.join(''));
  await until(() => stuck.isOpen());
  t.equal(await service.stop(), 0, 'long before DATABASE_TIMEOUT');
  t.equal(await stuck.ended, '', 'no answer');
});

test('Ctrl-C does not wait for DRAIN_DELAY', async (t: Test) => {
  const { url } = await testDatabase(t);
  const service = await startService(t, { DATABASE_URL: url, DRAIN_DELAY: '300', SHUTDOWN_TIMEOUT: '600' });
  t.equal(await service.stop('SIGINT'), 0);
});

/** A connection that sends bytes when the test says so. */
function open({ url }: Service, text: string) {
  const { hostname, port } = new URL(url);
  let received = '';
  const socket = connect(Number(port), hostname, () => socket.write(text));
  socket.on('data', (chunk) => (received += chunk.toString()));
  socket.on('error', () => undefined);
  const ended = new Promise<string>((resolve) => {
    socket.on('close', () => {
      resolve(received);
    });
  });
  return {
    send: (more: string) => socket.write(more),
    isOpen: () => socket.readyState === 'open',
    received: () => received,
    ended,
  };
}

/** Whether the service refuses new connections. */
async function isRefused({ url }: Service): Promise<boolean> {
  try {
    await fetch(`${url}/nowhere`);
    return false;
  } catch {
    return true;
  }
}
