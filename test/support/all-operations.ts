import type { Test } from 'tap';
import { anAccount, bearer, type Pair } from './client.ts';
import { logLines } from './log-lines.ts';
import { ready, type Service } from './service.ts';
import { until } from './until.ts';

/** All six operations on the built service, and what its log says of them. */
export async function goThrough(t: Test, service: Service): Promise<void> {
  await ready(service);
  const account = anAccount({ password: 'analytical engine' });
  const { username, password } = account;
  const ask = async (method: string, path: string, options: { token?: string; body?: object } = {}) => {
    const response = await fetch(`${service.url}${path}`, {
      method,
      // Existing clients send it on every request.
      headers: { 'content-type': 'application/json', ...(options.token && bearer(options.token)) },
      ...(options.body && { body: JSON.stringify(options.body) }),
    });
    t.match(response.headers.get('x-request-id'), /^[A-Za-z0-9-]{1,64}$/);
    return response;
  };
  const granted = async (response: Response) => {
    t.equal(response.status, 200);
    t.equal(response.headers.get('cache-control'), 'no-store');
    return (await response.json()) as Pair;
  };
  const isGood = async (token: string) => (await ask('GET', '/api/auth/verify', { token })).status === 200;

  const first = await granted(await ask('POST', '/api/auth/signup', { body: account }));
  const second = await granted(await ask('POST', '/api/auth', { body: { username, password } }));
  const third = await granted(await ask('GET', '/api/auth/refresh', { token: second.refresh_token }));
  t.strictSame([await isGood(second.access_token), await isGood(third.access_token)], [false, true]);

  const token = third.access_token;
  const created = await ask('POST', '/api/auth/llt', { token, body: { device: 'Kitchen tablet' } });
  t.equal(created.status, 200);
  const { id, longlived_token: llt } = (await created.json()) as { id: number; longlived_token: string };
  t.ok(await isGood(llt));
  t.equal((await ask('DELETE', `/api/auth/llt/${id}`, { token })).status, 200);
  t.notOk(await isGood(llt));

  const profile = (await (await ask('GET', '/api/user', { token })).json()) as { tokens: unknown[] };
  t.match(profile, { ...first.user, tokens: [{ type: 'refresh' }, { type: 'refresh', current: true }] });
  t.equal((await ask('DELETE', '/api/auth', { token })).status, 200);
  t.notOk(await isGood(token));
  t.ok(await isGood(first.access_token), 'the other session is still good');

  const requests = () => logLines(service.log()).filter(({ msg }) => msg === 'request');
  await until(() => requests().length >= 13);
  t.equal(requests().length, 13, 'one line per request');
  const ids = new Set(requests().map(({ reqId }) => reqId));
  t.equal(ids.size, 13, 'each with its own id');
  for (const secret of [account.email, password, first.access_token, token, llt, second.refresh_token]) {
    t.notOk(service.log().includes(secret), 'no secrets in the log');
  }
}
