import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call, signUp } from '../../support/client.ts';

test('a valid request id of the caller is kept, else one is made, and it is always returned', async (t) => {
  const target = await buildTestApp(t);
  for (const id of ['a', 'A-0', 'x'.repeat(64), '-']) {
    for (const line of ['GET /nowhere', 'PUT /api/auth', 'GET /api/user', 'DELETE /api/auth/%zz']) {
      const { headers } = await call(target, line, { headers: { 'x-request-id': id } });
      t.equal(headers['x-request-id'], id);
    }
  }
  for (const id of ['', 'x'.repeat(65), 'a b', 'a_b', 'a.b', 'a,b', 'é', '${x}']) {
    const { headers } = await call(target, 'GET /nowhere', { headers: { 'x-request-id': id } });
    t.match(headers['x-request-id'], /^[A-Za-z0-9-]{1,64}$/);
    t.not(headers['x-request-id'], id);
  }
  const { headers } = await call(target, 'GET /nowhere');
  t.match(headers['x-request-id'], /^[A-Za-z0-9-]{1,64}$/);
  t.match(target.log(), `"reqId":"${String(headers['x-request-id'])}"`);
});

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
