// suite: browser
import http from 'node:http';
import { test, type Test } from 'tap';
import { chromiumMissing, openPage } from '../support/browser.ts';
import { anAccount } from '../support/client.ts';
import { startDeployedCaddy } from '../support/deployed-caddy.ts';
import { startDeployedNginx } from '../support/deployed-nginx.ts';
import { listen } from '../support/listen.ts';
import { signUpOver, verifyOver } from '../support/over-http.ts';
import { readyService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
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
  const service = await readyService(t, {
    CORS_ORIGINS: `https://app.example,${listed}`,
    RATE_LIMIT_SIGNUP: '2/600',
  });
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
    // The log is written behind the answers.
    await until(() => service.log().includes(`"origin":"${other}"`));
  });
});

/** Runs in the page: calls an application behind a proxy, with a good token, after the logout, and without Latchkey. */
const BEHIND_PROXY = `async ([url, account]) => {
  const ask = async (method, path, token, body) => {
    const response = await fetch(url + path, {
      method,
      headers: { 'content-type': 'application/json', ...(token && { authorization: 'Bearer ' + token }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const header = (name) => response.headers.get(name);
    return { status: response.status, text, header };
  };
  const { access_token: token } = JSON.parse((await ask('POST', '/api/auth/signup', null, account)).text);
  const good = await ask('POST', '/orders', token, { book: 1 });
  await ask('DELETE', '/api/auth', token);
  const refused = await ask('POST', '/orders', token, { book: 2 });
  await stopLatchkey();
  const away = await ask('POST', '/orders', token, { book: 3 });
  return [
    [good.status, good.text],
    [refused.status, refused.header('www-authenticate')],
    [away.status, Number(away.header('retry-after')) > 0],
  ];
}`;

for (const name of ['nginx', 'Caddy'] as const)
  test(
    `a page of another origin, in Chromium, with an application behind ${name}`,
    { skip: chromiumMissing || toolsMissing('bash', name.toLowerCase()) },
    async (t) => {
      const origin = await aSite(t);
      const service = await readyService(t, { CORS_ORIGINS: origin, TRUST_PROXY: 'loopback' });
      const sent: string[] = [];
      const app = await listen(t, http.createServer(anApplicationFor(origin, sent)));
      const withPages = (text: string) => text.replaceAll('#cors ', '');
      const at = (scheme: string) => ({
        [`${scheme}latchkey:3000`]: service.url,
        [`${scheme}app:8081`]: app,
      });
      const { url } =
        name === 'nginx'
          ? await startDeployedNginx(t, 'nginx.conf', at('http://'), withPages)
          : await startDeployedCaddy(t, at(''), new URL(service.opsUrl).port, withPages);
      const { page } = await openPage(t, origin);
      await page.exposeFunction('stopLatchkey', () => service.stop());
      await page.goto(origin);
      t.strictSame(await page.evaluate(`(${BEHIND_PROXY})(${JSON.stringify([url, anAccount()])})`), [
        [200, 'ordered'],
        [401, 'Bearer error="invalid_token"'],
        [503, true],
      ]);
      t.strictSame(sent, ['{"book":1}'], 'the application got no other request');
    },
  );

/** An application that answers preflights of this origin. */
function anApplicationFor(origin: string, sent: string[]): http.RequestListener {
  return (request, response) => {
    response.setHeader('access-control-allow-origin', origin);
    if (request.method === 'OPTIONS') {
      response.writeHead(204, { 'access-control-allow-headers': 'authorization, content-type' }).end();
      return;
    }
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      sent.push(body);
      response.end('ordered');
    });
  };
}

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
