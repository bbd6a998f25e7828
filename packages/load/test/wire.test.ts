import { createServer, type RequestListener } from 'node:http';
import { test, type Test } from 'tap';
import { listen } from '../../../test/support/listen.ts';
import { until } from '../../../test/support/until.ts';
import { LOST, makeWire } from '../src/wire.ts';

async function wireTo(t: Test, answer: RequestListener) {
  const wire = makeWire(await listen(t, createServer(answer)), 4);
  t.teardown(() => wire.close());
  return wire;
}

const VERIFY = { method: 'GET', path: '/api/auth/verify' } as const;

test('a lost answer is one whose connection was closed after the request was sent', async (t) => {
  const seen = { requests: 0, closed: 0 };
  const wire = await wireTo(t, (_request, response) => {
    seen.requests++;
    response.once('close', () => seen.closed++);
  });
  // On a busy machine, a request may not be sent before its answer is lost.
  await until(async () => {
    t.match(await wire.send(VERIFY, 50), { status: 0, code: LOST, body: null });
    return seen.requests > 0;
  });
  await until(() => seen.closed === seen.requests);
});

test('an answer that comes before it is lost is forgotten too', async (t) => {
  const wire = await wireTo(t, (_request, response) => response.end('{}'));
  t.match(await wire.send(VERIFY, 60_000), { status: 0, code: LOST, body: null });
});

test('answers are named by their status and code', async (t) => {
  const answers: [number, string, string][] = [
    [200, '', 'ok'],
    [503, '{"code":"overloaded"}', '503 overloaded'],
    [502, '<html>Bad gateway', '502'],
    [404, '{"error":"gone"}', '404'],
  ];
  const left = [...answers];
  const wire = await wireTo(t, (_request, response) => {
    const [status = 500, body] = left.shift() ?? [];
    response.writeHead(status, { 'retry-after': '3' }).end(body);
  });
  for (const [status, , code] of answers) t.match(await wire.send(VERIFY), { status, code, retryAfter: 3 });
});

test('a service that does not answer is no exception', async (t) => {
  const wire = makeWire('http://127.0.0.1:1', 4);
  t.teardown(() => wire.close());
  t.match(await wire.send(VERIFY), { status: 0, code: 'no answer (ECONNREFUSED)' });
});
