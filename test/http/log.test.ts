import { test, type Test } from 'tap';
import { AuthError } from '../../src/domain/errors.ts';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, pairOf, refresh, signUp } from '../support/client.ts';
import { logLines } from '../support/log-lines.ts';
import { aRegisteredService, introspect } from '../support/registered-service.ts';
import { aForgedRefresh } from '../support/tokens.ts';

const JSON_TYPE = { 'content-type': 'application/json' };

test('no answer holds an e-mail address or a password', async (t) => {
  const target = await buildTestApp(t);
  const account = anAccount({ password: 'Hunter2-hunter2' });
  const { username, email, password } = account;
  const { access_token: token } = await signUp(target, account);
  const answers: string[] = [];
  const visit = async (line: string, options: Parameters<typeof call>[2] = {}) => {
    const response = await call(target, line, options);
    answers.push(response.body, JSON.stringify(response.headers));
  };
  const logInWith = async (payload: object) => {
    await visit('POST /api/auth', { payload });
  };
  await visit('POST /api/auth/signup', { payload: account });
  await visit('POST /api/auth/signup', { payload: { ...account, username: email, password: '' } });
  await visit('POST /api/auth/signup', {
    payload: { ...account, username: `x${username}`, password: email },
  });
  await logInWith({ username: email, password });
  await logInWith({ username: email, password: `${password}!` });
  await logInWith({ username: [email], password: { password } });
  await visit('POST /api/auth', { headers: JSON_TYPE, payload: `{"password":"${password}"` });
  await visit(`GET /${email}/${password}?password=${password}`);
  await visit('GET /api/user', { token });
  await visit('GET /api/auth/verify', { token });

  for (const secret of [email, password])
    t.strictSame(
      answers.filter((answer) => answer.includes(secret)),
      [],
    );
});

test('each request logs one line with its id', async (t) => {
  const target = await buildTestApp(t, { env: { LOG_REQUESTS: 'all' } });
  const { access_token: token } = await signUp(target);
  const lines = [
    'GET /api/user',
    'GET /nowhere',
    'PUT /api/auth',
    'DELETE /api/auth/%',
    'GET /api/auth/verify',
  ];
  for (const [i, line] of lines.entries()) {
    await call(target, line, { token, headers: { 'x-request-id': `line-${i}` } });
    const found = logLines(target.log()).filter(
      ({ reqId, msg }) => reqId === `line-${i}` && msg === 'request',
    );
    t.equal(found.length, 1, line);
    t.match(found[0], { method: line.split(' ')[0], status: Number, ms: Number });
  }
});

/** The routes of the lines, each with its status, after one good and one bad request of each group. */
async function linesWith(t: Test, LOG_REQUESTS?: string): Promise<string[]> {
  const target = await buildTestApp(t, { env: { ...(LOG_REQUESTS !== undefined && { LOG_REQUESTS }) } });
  const client = await aRegisteredService(target.databaseUrl);
  const pair = await signUp(target);
  const next = pairOf(await refresh(target, pair.refresh_token));
  const before = target.log().length;
  await call(target, 'GET /api/auth/verify', { token: next.access_token });
  await call(target, 'GET /api/auth/verify', { token: 'x' });
  await refresh(target, next.refresh_token);
  await refresh(target, 'x');
  await call(target, 'GET /.well-known/jwks.json');
  await call(target, 'POST /.well-known/jwks.json');
  await introspect(target, client, 'x');
  await introspect(target, { ...client, secret: 'x' }, 'x');
  await call(target, 'DELETE /api/auth', { token: 'x' });
  await call(target, 'GET /nowhere');
  return logLines(target.log().slice(before))
    .filter(({ msg }) => msg === 'request')
    .map(({ route, status }) => `${String(route).replace(/^.*\//, '')} ${String(status)}`);
}

test('LOG_REQUESTS chooses the requests that leave a line', async (t) => {
  const failures = ['verify 401', 'refresh 401', 'jwks.json 405', 'introspect 401', 'auth 401', 'null 404'];
  t.strictSame(await linesWith(t), failures, 'by default, frequent requests leave a line if they fail');
  t.strictSame(await linesWith(t, 'failures'), failures);
  t.strictSame(await linesWith(t, 'none'), []);
  t.strictSame(await linesWith(t, 'none,refresh=all'), ['refresh 200', 'refresh 401']);
  const all = ['verify 200', 'refresh 200', 'jwks.json 200', 'introspect 200', ...failures];
  t.strictSame((await linesWith(t, 'all')).sort(), all.sort());
});

test('only faults of the service are warnings, refused requests are not', async (t) => {
  const target = await buildTestApp(t, { env: { REFRESH_RETRY_WINDOW: '0' } });
  const levelOf = async (line: string, options: Parameters<typeof call>[2] = {}) => {
    const id = `line-${Math.random().toString(36).slice(2)}`;
    const response = await call(target, line, { ...options, headers: { 'x-request-id': id } });
    const found = logLines(target.log()).filter(({ reqId }) => reqId === id);
    t.equal(found.length, 1, 'one line');
    return { status: response.statusCode, level: found[0]?.level };
  };
  const pair = await signUp(target);
  const payload = { username: 'unknown', password: 'a wrong one' };
  t.strictSame(await levelOf('POST /api/auth', { payload }), { status: 401, level: 'info' });
  t.strictSame(await levelOf('GET /api/auth/verify', { token: 'x' }), { status: 401, level: 'info' });
  t.strictSame(await levelOf('GET /nowhere'), { status: 404, level: 'info' });

  const next = pairOf(await refresh(target, pair.refresh_token));
  await refresh(target, next.refresh_token);
  t.strictSame(await levelOf('GET /api/auth/refresh', { token: pair.refresh_token }), {
    status: 401,
    level: 'info',
  });
});

test('an overload is no warning, an outage is one', async (t) => {
  const overloaded = new AuthError('overloaded', { retryAfter: 1 });
  const target = await buildTestApp(t, {
    override: (app) => ({
      ...app,
      loadShedding: { ...app.loadShedding, hashRefusal: () => overloaded },
      useCases: {
        ...app.useCases,
        refresh: () => Promise.reject(new AuthError('unavailable')),
      },
    }),
  });
  await call(target, 'POST /api/auth', { payload: { username: 'ada', password: 'x' } });
  await refresh(target, await aForgedRefresh(target, { userId: 1, tokenId: 1 }));
  t.match(
    logLines(target.log())
      .filter(({ msg }) => msg === 'request')
      .map(({ code, level }) => [code, level]),
    [
      ['overloaded', 'info'],
      ['unavailable', 'warn'],
    ],
  );
});
