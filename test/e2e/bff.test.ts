import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { anAccount, type Pair } from '../support/client.ts';
import { ROOT } from '../support/documents.ts';
import { anApp } from '../support/factors.ts';
import { freePort } from '../support/free-port.ts';
import { listen } from '../support/listen.ts';
import { logLines } from '../support/log-lines.ts';
import { logInOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { answersHttp, startServerProcess } from '../support/server-process.ts';
import { readyService, type Service } from '../support/service.ts';
import '../support/watch-leaks.ts';

const ORIGIN = 'https://shop.example';
const PROGRAM = join(ROOT, 'examples/bff/server.mjs');
const FACTOR_KEYS = Buffer.alloc(32, 1).toString('base64url');

test('the backend-for-frontend of examples/bff', async (t) => {
  const service = await readyService(t, { FACTOR_KEYS, TRUST_PROXY: 'loopback' });
  const network = await aNetwork(t, service.url);
  const port = await freePort();
  const url = `http://localhost:${port}`;
  await startServerProcess(t, [process.execPath, PROGRAM], {
    answers: () => answersHttp(url),
    env: { LATCHKEY_URL: network.url, ORIGIN, PORT: String(port), TRUST_PROXY: 'loopback' },
  });
  const browserAt = (address?: string) => aBrowser(url, address);
  const account = anAccount();
  await signUpOver(service.url, account);
  const signIn = async (address?: string) => {
    const browser = browserAt(address);
    const response = await browser.send('POST /bff/login', account);
    return { browser, response, text: await response.text() };
  };

  await t.test('a login gives the browser a cookie and no token', async (t) => {
    const { browser, response, text } = await signIn();
    t.equal(response.status, 200, text);
    t.match(JSON.parse(text), { user: { username: account.username } });
    t.notMatch(text, /eyJ|token/);
    const [cookie = '', ...attributes] = (response.headers.get('set-cookie') ?? '').split('; ');
    t.match(cookie, /^__Host-session=[\w-]{43}$/);
    t.strictSame(attributes.sort(), ['HttpOnly', 'Path=/', 'SameSite=Strict', 'Secure']);
    t.equal(response.headers.get('cache-control'), 'no-store');
    t.equal((await browser.send('GET /bff/user')).status, 200);
    const again = await signIn();
    t.not(again.browser.cookie(), browser.cookie(), 'each login has a new id');
  });

  await t.test('a refused login is passed on, without a cookie', async (t) => {
    const response = await browserAt().send('POST /bff/login', { ...account, password: 'wrong' });
    t.equal(response.status, 401);
    t.equal(response.headers.get('set-cookie'), null);
  });

  await t.test('requests of other sites are refused', async (t) => {
    const { browser } = await signIn();
    for (const headers of [{ 'x-requested-by': '' }, { origin: 'https://evil.example' }, { origin: 'null' }])
      for (const line of ['GET /bff/user', 'POST /bff/logout', 'POST /bff/login'])
        t.equal(
          (await browser.send(line, line.endsWith('login') ? account : undefined, headers)).status,
          403,
        );
    t.equal((await browser.send('GET /bff/user', undefined, { origin: ORIGIN })).status, 200);
  });

  await t.test('Latchkey counts the address of the user', async (t) => {
    await signIn('203.0.113.7');
    const logins = logLines(service.log()).filter(({ event }) => event === 'session.created');
    t.equal(logins.at(-1)?.address, '203.0.113.7');
  });

  await t.test('ten requests with an expired token share one refresh', async (t) => {
    const { browser } = await signIn();
    await browser.send('GET /bff/user');
    network.expire();
    const answers = await Promise.all(Array.from({ length: 10 }, () => browser.send('GET /bff/user')));
    t.strictSame(
      answers.map(({ status }) => status),
      Array.from({ length: 10 }, () => 200),
    );
    t.equal(network.refreshes(), 1);
  });

  await t.test(
    'a refresh whose answer is lost, or a firewall’s, is repeated with the same token',
    async (t) => {
      const { browser } = await signIn();
      await browser.send('GET /bff/user');
      network.expire();
      network.lose(2);
      t.equal((await browser.send('GET /bff/user')).status, 200);
      t.equal(network.refreshes(), 3);
      t.equal(new Set(network.presented()).size, 1, 'one refresh token');
      t.equal((await browser.send('GET /bff/user')).status, 200, 'the session lives on');
    },
  );

  await t.test('while no answer arrives, the browser gets 503 and keeps its session', async (t) => {
    const { browser } = await signIn();
    await browser.send('GET /bff/user');
    network.expire();
    network.lose(1000);
    const refused = await browser.send('GET /bff/user');
    t.equal(refused.status, 503);
    t.match(refused.headers.get('retry-after'), /^[1-9]\d*$/);
    t.equal(refused.headers.get('set-cookie'), null);
    t.equal((await browser.send('POST /bff/logout')).status, 503, 'a logout is not said to be done');
    network.lose(0);
    t.equal((await browser.send('GET /bff/user')).status, 200);
  });

  await t.test('a session that ended elsewhere ends here', async (t) => {
    const { browser } = await signIn();
    await browser.send('GET /bff/user');
    await endAll(service, account);
    const response = await browser.send('GET /bff/user');
    t.equal(response.status, 401);
    t.match(response.headers.get('set-cookie'), /^__Host-session=; .*Max-Age=0$/);
    t.equal((await browser.send('GET /bff/user')).status, 401);
  });

  await t.test('a logout ends the session at Latchkey, also with an expired token', async (t) => {
    for (const isExpired of [false, true]) {
      const { browser } = await signIn();
      await browser.send('GET /bff/user');
      if (isExpired) network.expire();
      const response = await browser.send('POST /bff/logout');
      t.equal(response.status, 200);
      t.match(response.headers.get('set-cookie'), /Max-Age=0$/);
      t.equal(await verifyOver(service.url, network.lastAccess()), 401);
      t.equal((await browser.send('GET /bff/user')).status, 401);
      t.equal((await browser.send('POST /bff/logout')).status, 200, 'a repeat is safe');
    }
  });

  await t.test('a login ends the session of the cookie that it replaces', async (t) => {
    for (const isExpired of [false, true]) {
      const { browser } = await signIn();
      await browser.send('GET /bff/user');
      const [before, access] = [browser.cookie(), network.lastAccess()];
      if (isExpired) network.expire();
      t.equal((await browser.send('POST /bff/login', account)).status, 200);
      t.not(browser.cookie(), before);
      t.equal(await verifyOver(service.url, access), 401);
      t.equal(await verifyOver(service.url, network.lastAccess()), 401, 'also after a refresh');
      t.equal((await browser.send('GET /bff/user')).status, 200);
      const old = await browserAt().send('GET /bff/user', undefined, { cookie: before });
      t.equal(old.status, 401);
    }
  });

  await t.test('a second factor is added, asked for and removed through the backend', async (t) => {
    const own = anAccount();
    await signUpOver(service.url, own);
    const browser = browserAt();
    const send = async (line: string, body?: object): Promise<Record<string, unknown>> => {
      const response = await browser.send(line, body);
      return { ...((await response.json()) as object), status: response.status };
    };
    await send('POST /bff/login', own);
    const proof = { current_password: own.password };
    const { secret } = await send('POST /bff/factors/totp', proof);
    const app = anApp(String(secret));
    const confirmed = await send('POST /bff/factors/totp/confirm', { code: app() });
    t.match(confirmed, { status: 200, recovery_codes: { length: 10 } });
    t.match(await send('GET /bff/factors'), { recovery_codes_left: 10, factors: [{ type: 'totp' }] });
    t.match(await send('POST /bff/factors/recovery-codes', proof), { status: 403, code: 'login_too_old' });

    const asked = await send('POST /bff/login', own);
    t.match(asked, { status: 401, code: 'second_factor_required', methods: ['totp', 'recovery_code'] });
    t.equal(
      (await send('GET /bff/user')).status,
      401,
      'the session of the cookie has ended, with no other yet',
    );
    const { login_token } = asked;
    const wrong = await send('POST /bff/second-factor', { login_token, code: '000000' });
    t.match(wrong, { status: 401, code: 'invalid_second_factor' });
    // The code that confirmed the app is used up, and the next one is good already.
    t.match(await send('POST /bff/second-factor', { login_token, code: app(1) }), {
      status: 200,
      user: { username: own.username },
      access_token: undefined,
    });
    t.equal((await browser.send(`POST /bff/factors/${String(confirmed.id)}/removal`, proof)).status, 200);
    t.match(await send('GET /bff/factors'), { factors: [] });
    t.equal((await browser.send('POST /bff/factors/..%2ftotp/removal', proof)).status, 400, 'no other path');
  });

  await t.test('while a session cannot end, a login does not replace it', async (t) => {
    const { browser } = await signIn();
    await browser.send('GET /bff/user');
    const before = browser.cookie();
    network.expire();
    network.lose(1000);
    const refused = await browser.send('POST /bff/login', account);
    t.equal(refused.status, 503);
    t.equal(refused.headers.get('set-cookie'), null);
    network.lose(0);
    t.equal((await browser.send('GET /bff/user')).status, 200);
    t.equal(browser.cookie(), before);
  });
});

/** A browser's cookie, and the headers of the page's requests. */
function aBrowser(url: string, address = '192.0.2.1') {
  let cookie = '';
  return {
    cookie: () => cookie,
    async send(line: string, body?: object, more: Record<string, string> = {}): Promise<Response> {
      const [method = '', path = ''] = line.split(' ');
      const headers = {
        'x-requested-by': 'page',
        'x-forwarded-for': address,
        'user-agent': 'Browser/1.0',
        ...(cookie && { cookie }),
        ...(body && { 'content-type': 'application/json' }),
        ...more,
      };
      const response = await fetch(url + path, {
        method,
        headers,
        ...(body && { body: JSON.stringify(body) }),
      });
      const [set] = response.headers.getSetCookie();
      if (set !== undefined) [cookie = ''] = set.split(';');
      return response;
    },
  };
}

/** The network between the backend and Latchkey: it can lose answers to refreshes, and let access tokens expire. */
async function aNetwork(t: Test, target: string) {
  const expired = new Set<string>();
  let last = '';
  let losses = 0;
  let presented: string[] = [];

  const server = http.createServer((request, response) => {
    const token = request.headers.authorization?.replace('Bearer ', '') ?? '';
    const isRefresh = request.url === '/api/auth/refresh';
    if (isRefresh) presented.push(token);
    else if (token !== '') last = token;
    if (expired.has(token)) {
      // What Latchkey answers once `exp` has passed.
      response.writeHead(401, { 'content-type': 'application/problem+json' });
      response.end(JSON.stringify({ type: 'urn:latchkey:error:invalid_token', code: 'invalid_token' }));
      return;
    }
    const isLost = isRefresh && losses > 0;
    forward(target, request, response, isLost && (losses-- % 2 === 0 ? 'lost' : 'replaced'));
  });
  const url = await listen(t, server);
  return {
    url,
    /** The access token that was presented last has expired from now on. */
    expire() {
      expired.add(last);
      presented = [];
    },
    /** Loses the answers of the next refreshes: every other one is replaced by a firewall’s. */
    lose(count: number) {
      losses = count;
    },
    refreshes: () => presented.length,
    presented: () => presented,
    lastAccess: () => last,
  };
}

function forward(
  target: string,
  request: IncomingMessage,
  response: ServerResponse,
  fate: false | 'lost' | 'replaced',
): void {
  const { method, url = '', headers } = request;
  const onward = http.request(target + url, { method, headers }, (answer) => {
    // Latchkey has done its work, and the backend does not hear of it.
    if (fate) {
      answer.resume();
      answer.on('end', () => {
        if (fate === 'lost') response.destroy();
        else response.writeHead(403, { 'content-type': 'application/json' }).end('{"message":"Forbidden"}');
      });
      return;
    }
    response.writeHead(answer.statusCode ?? 500, answer.headers);
    answer.pipe(response);
  });
  request.pipe(onward);
}

async function endAll({ url }: Service, { username, password }: { username: string; password: string }) {
  const response = await logInOver(url, username, password);
  const { access_token: access } = (await response.json()) as Pair;
  await fetch(`${url}/api/user/tokens`, { method: 'DELETE', headers: { authorization: `Bearer ${access}` } });
}
