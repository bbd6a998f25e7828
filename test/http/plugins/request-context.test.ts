import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call, signUp } from '../../support/client.ts';

test('the log continues the caller’s trace', async (t) => {
  const target = await buildTestApp(t);
  const trace = '4bf92f3577b34da6a3ce929d0e0e4736';
  await call(target, 'GET /nowhere', { headers: { traceparent: `00-${trace}-00f067aa0ba902b7-01` } });
  t.match(target.log(), `"trace_id":"${trace}"`);
  await call(target, 'GET /nowhere', { headers: { traceparent: `00-hunter2-00f067aa0ba902b7-01` } });
  t.notMatch(target.log(), 'hunter2');
});

test('answers close the connection during a drain, and only then', async (t) => {
  const target = await buildTestApp(t);
  const { access_token: token } = await signUp(target);
  const lines = ['GET /api/user', 'GET /nowhere', 'PUT /api/auth', 'GET /api/auth/verify', 'POST /api/auth'];
  for (const line of lines) t.not((await call(target, line, { token })).headers.connection, 'close');
  target.composition.drain();
  for (const line of lines) t.equal((await call(target, line, { token })).headers.connection, 'close', line);
});
