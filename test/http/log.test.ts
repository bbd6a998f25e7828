import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, createLongLived, refresh, signUp } from '../support/client.ts';
import { logLines } from '../support/log-lines.ts';

const JSON_TYPE = { 'content-type': 'application/json' };

test('no answer and no line of the log holds an address, a password or a token', async (t) => {
  const target = await buildTestApp(t, { env: { LOG_LEVEL: 'trace', TRUST_PROXY: 'loopback' } });
  const account = { ...anAccount({ password: 'Hunter2-hunter2' }), device: 'Secret device' };
  const answers: string[] = [];
  const secrets = [account.password, account.email, account.device, '192.0.2.77'];
  const visit = async (line: string, options: Parameters<typeof call>[2] = {}) => {
    const headers = { 'x-forwarded-for': '192.0.2.77', ...options.headers };
    const response = await call(target, line, { ...options, headers });
    answers.push(response.body, JSON.stringify(response.headers));
    return response;
  };
  const pair = (await visit('POST /api/auth/signup', { payload: account })).json<Record<string, string>>();
  const token = pair.access_token;
  const { username, email, password } = account;
  await visit('POST /api/auth/signup', { payload: account });
  await visit('POST /api/auth/signup', { payload: { ...account, username: email, password: '' } });
  await visit('POST /api/auth/signup', {
    payload: { ...account, username: `x${username}`, password: email },
  });
  await visit('POST /api/auth', { payload: { username: email, password, device: account.device } });
  await visit('POST /api/auth', {
    payload: { username: email, password: `${password}!`, device: account.device },
  });
  await visit('POST /api/auth', { payload: { username: [email], password: { password } } });
  await visit('POST /api/auth', { headers: JSON_TYPE, payload: `{"password":"${password}"` });
  const llt = await createLongLived(target, token ?? '', account.device);
  await refresh(target, pair.refresh_token ?? '');
  await refresh(target, pair.refresh_token ?? '', { 'user-agent': 'another' });
  await visit(`DELETE /api/auth/${token}`, { token });
  await visit(`DELETE /api/auth?id=${token}`, { token });
  await visit(`GET /${token}/${password}?password=${password}`);
  await visit('GET /api/user', { token: llt.longlived_token });
  await visit('DELETE /api/auth', { token });

  const profileShowsDevice = answers.filter((answer) => answer.includes(account.device));
  t.equal(profileShowsDevice.length, 1, 'only as the name of tokens in the owner’s own list');
  for (const secret of [account.email, account.password]) {
    t.strictSame(
      answers.filter((answer) => answer.includes(secret)),
      [],
      'no answer holds it',
    );
  }
  const tokens = [...Object.values(pair).slice(0, 2), llt.longlived_token].map(String);
  for (const secret of [...secrets, ...tokens, ...tokens.map((each) => each.split('.')[1] ?? each)]) {
    t.notOk(target.log().includes(secret), 'the log does not hold it');
  }
});

test('each request leaves one line with its id', async (t) => {
  const target = await buildTestApp(t);
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
