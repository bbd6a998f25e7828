// suite: browser
import http from 'node:http';
import { test, type Test } from 'tap';
import { chromiumMissing, openPage } from '../support/browser.ts';
import { anAccount } from '../support/client.ts';
import { listen } from '../support/listen.ts';
import { signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { ready, startService } from '../support/service.ts';
import '../support/watch-leaks.ts';

/** Runs in the page: a client that signs up, refreshes, lists its tokens, logs out, and reads refusals. */
const SCRIPT = `async ([url, account]) => {
  const ask = async (method, path, token, body) => {
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(token && { authorization: 'Bearer ' + token }),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const header = (name) => response.headers.get(name);
    return { status: response.status, body: await response.json(), header };
  };
  const pair = (await ask('POST', '/api/auth/signup', null, account)).body;
  const next = (await ask('GET', '/api/auth/refresh', pair.refresh_token)).body;
  const profile = await ask('PATCH', '/api/user', next.access_token, { name: 'Countess' });
  const ended = await ask('DELETE', '/api/auth', next.access_token);
  const refused = await ask('GET', '/api/user', next.access_token);
  const limited = await ask('POST', '/api/auth/signup', null, account);
  return [
    profile.body.name,
    ended.status,
    [refused.status, refused.body.code, refused.header('www-authenticate')],
    [limited.status, limited.body.code, Number(limited.header('retry-after')) > 0],
    (refused.header('x-request-id') ?? '').length,
    await fetch(url + '/api/auth/verify', { headers: { authorization: 'Bearer x' } }).then(String, String),
  ];
}`;

test('a page of another origin, in Chromium', { skip: chromiumMissing }, async (t) => {
  const [listed, other] = [await aSite(t), await aSite(t)];
  const { url: DATABASE_URL } = await testDatabase(t);
  const service = await startService(t, {
    DATABASE_URL,
    CORS_ORIGINS: `https://app.example,${listed}`,
    RATE_LIMIT_SIGNUP: '2/600',
  });
  await ready(service);
  t.equal(await verifyOver(service.url, (await signUpOver(service.url)).access_token), 200);
  const failed = 'TypeError: Failed to fetch';

  await t.test('uses the API and reads its refusals if it is listed, but never verify', async (t) => {
    t.strictSame(await runAt(t, listed, service.url), [
      'Countess',
      200,
      [401, 'invalid_token', 'Bearer error="invalid_token"'],
      [429, 'rate_limited', true],
      36,
      failed,
    ]);
  });
  await t.test('reads nothing if it is not listed', async (t) => {
    await t.rejects(runAt(t, other, service.url), { message: /Failed to fetch/ });
  });
});

async function runAt(t: Test, origin: string, url: string): Promise<unknown> {
  const { page } = await openPage(t, origin);
  await page.goto(origin);
  return page.evaluate(`(${SCRIPT})(${JSON.stringify([url, anAccount()])})`);
}

/** An empty page. */
function aSite(t: Test): Promise<string> {
  const server = http.createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' });
    response.end('<!doctype html><title>A page</title>');
  });
  return listen(t, server);
}
