import http from 'node:http';
import { test } from 'tap';
import { createClient, type ClientOptions, type LatchkeyError, type TokenStorage } from '../src/main.ts';
import { deferred } from '../../../test/support/deferred.ts';
import { listen } from '../../../test/support/listen.ts';
import { aPair, fakeServer, json, problem, sharedStorage, tokenRefused } from './fake-server.ts';

const URL = 'https://id.example.com';
const REFRESH = `GET ${URL}/api/auth/refresh`;
const LOGIN = `POST ${URL}/api/auth`;
const LOGOUT = `DELETE ${URL}/api/auth`;
const SERVICE = 'https://shop.example.com/orders';

const [old, renewed] = [aPair({ generation: 1 }), aPair({ generation: 2 })];
const expired = { ...old, stored_at: Date.now() - 3_600_000 };
const account = { username: 'ada', password: 'correct horse' };

function aClient(
  { fetch }: Pick<ClientOptions, 'fetch'>,
  storage: ClientOptions['storage'],
  more: ClientOptions = {},
) {
  return createClient({ url: URL, apis: ['https://SHOP.example.com:443'], storage, fetch, ...more });
}

test('the session is the same object until it changes', async (t) => {
  const server = fakeServer({
    [REFRESH]: [() => json(200, renewed), () => json(200, aPair({ generation: 3 }))],
    [LOGIN]: [() => json(200, aPair({ session: 2 }))],
    [LOGOUT]: [() => json(200, {})],
  });
  const client = aClient(server, sharedStorage(old).storage);
  const { onChange, refresh, login, logout } = client;
  t.equal(client.session, undefined, 'storage has not been read');
  const seen: unknown[] = [];
  const end = onChange(() => seen.push(client.session?.id ?? client.session));
  const session = await refresh();
  t.equal(session, client.session);
  t.strictSame(session, { id: 1, user: old.user });
  t.ok(Object.isFrozen(session) && Object.isFrozen(session.user));
  t.equal(await refresh(), session);
  await login(account);
  await logout();
  t.strictSame(seen, [1, 2, null]);
  end();
  await login(account);
  t.equal(seen.length, 3);
});

test('the session shows the roles of the last refresh, and none for a pair that 1.0.0 has stored', async (t) => {
  const { storage, put } = sharedStorage();
  put({ ...old, user: { ...old.user, roles: undefined } });
  const pair = (generation: number, roles: string[]) => () => json(200, aPair({ generation, roles }));
  const client = aClient(fakeServer({ [REFRESH]: [pair(2, []), pair(3, ['editor'])] }), storage);
  const seen: unknown[] = [];
  client.onChange(() => seen.push(client.session?.user.roles));
  await client.accessToken();
  const before = client.session;
  t.strictSame(before?.user, { ...old.user, roles: [] });
  t.equal(await client.refresh(), before, 'the same object, since nothing has changed');
  const { user: changed } = await client.refresh();
  t.strictSame(changed.roles, ['editor']);
  t.strictSame(seen, [[], ['editor']]);
  t.ok([before?.user.roles, changed.roles].every(Object.isFrozen));
});

test('a listener that throws or asks the client disturbs no work', async (t) => {
  const { storage } = sharedStorage(old);
  const client = aClient(fakeServer({}), storage);
  const thrown = new Promise((resolve) => process.once('unhandledRejection', resolve));
  const asked = new Promise((resolve) =>
    client.onChange(() => {
      resolve(client.accessToken());
    }),
  );
  client.onChange(() => {
    throw new Error('of the page');
  });
  t.equal(await client.accessToken(), old.access_token);
  t.equal(await asked, old.access_token);
  t.match(await thrown, { message: 'of the page' });
});

test('a page’s events make it look at storage, as long as something listens', async (t) => {
  const page = new EventTarget();
  const names = ['addEventListener', 'removeEventListener'] as const;
  for (const name of names) Object.assign(globalThis, { [name]: page[name].bind(page) });
  t.teardown(() => {
    names.forEach((name) => Reflect.deleteProperty(globalThis, name));
  });
  const { storage, items, put } = sharedStorage(old);
  const client = aClient(fakeServer({}), storage);
  await client.accessToken();
  for (const name of ['storage', 'pageshow', 'visibilitychange']) {
    const { promise, resolve } = deferred();
    const end = client.onChange(resolve);
    if (client.session) items.clear();
    else put(old);
    page.dispatchEvent(new Event(name));
    await promise;
    t.equal(client.session === null, items.size === 0, name);
    end();
  }
  const before = client.session;
  put(aPair({ session: 2 }));
  page.dispatchEvent(new Event('storage'));
  await new Promise(setImmediate);
  t.equal(client.session, before, 'nothing listens any more');
});

test('a logout wins over a refresh in flight, also with a storage that answers later', async (t) => {
  for (const isSlow of [false, true]) {
    const { promise, resolve } = deferred();
    const server = fakeServer({
      [REFRESH]: [() => promise.then(() => json(200, renewed))],
      [LOGOUT]: [() => json(200, {})],
    });
    const { storage, items } = sharedStorage(expired, isSlow);
    const client = aClient(server, storage);
    const refused = t.rejects(client.accessToken(), { code: 'signed_out' });
    while (server.sent.length === 0) await new Promise(setImmediate);
    const ended = client.logout();
    resolve();
    await Promise.all([refused, ended]);
    t.equal(items.size, 0);
    t.equal(client.session, null);
  }
});

test('a caller that aborts leaves the refresh to the others', async (t) => {
  const { promise, resolve } = deferred();
  const server = fakeServer({
    [REFRESH]: [() => promise.then(() => json(200, renewed))],
    [`GET ${SERVICE}`]: [() => new Response('ok')],
  });
  const client = aClient(server, sharedStorage(expired).storage);
  const abort = new AbortController();
  const aborted = client.fetch(SERVICE, { signal: abort.signal });
  const early = client.fetch(new Request(SERVICE, { signal: AbortSignal.abort() }));
  const other = client.fetch(SERVICE);
  abort.abort();
  await t.rejects(aborted, { name: 'AbortError' });
  await t.rejects(early, { name: 'AbortError' });
  resolve();
  t.equal((await other).status, 200);
  t.strictSame(server.lines(), [REFRESH, `GET ${SERVICE}`]);
});

test('sends the token to no other origin', async (t) => {
  const { storage } = sharedStorage(old);
  const server = fakeServer({
    [`GET ${SERVICE}`]: [() => new Response('ok')],
    [`GET HTTPS://Shop.Example.Com/orders`]: [() => new Response('ok')],
    [`GET ${URL}:443/api/user`]: [() => new Response('ok')],
  });
  const client = aClient(server, storage);
  for (const url of [SERVICE, 'HTTPS://Shop.Example.Com/orders', ` ${URL}:443/api/user\n`])
    t.equal((await client.fetch(url)).status, 200, url);
  t.strictSame(new Set(server.sent.map(({ token }) => token)), new Set([old.access_token]));
  const others = [
    'https://evil.example',
    `${URL}.evil.example/`,
    `${URL}@evil.example/`,
    'https://user@id.example.com/',
    `${URL}\\@evil.example/`,
    `${URL}:8443/`,
    'http://id.example.com/',
    '//evil.example/',
    '/\\evil.example/',
    '/\t/evil.example/',
    'https:evil.example',
    'https:/evil.example',
    'orders',
    '/orders',
    'javascript:alert(1)',
    'data:,x',
    '',
  ];
  for (const url of others) await t.rejects(client.fetch(url), { code: 'origin_not_allowed' }, url);
  const german = aClient(server, storage, { apis: ['https://faß.example'] });
  const another = german.fetch('https://faẞ.example/');
  await t.rejects(another, { code: 'origin_not_allowed' }, 'fass.example for some browsers');
  for (const path of ['@evil.example/', '.evil.example/', ':8443/'])
    await t.rejects(client.request('GET', path), { code: 'origin_not_allowed' }, path);
  t.equal(server.sent.length, 3);
  const mistakes = [
    { url: `${URL}?x` },
    { url: 'id.example.com' },
    { url: 'https://user@id.example.com' },
    { apis: ['shop.example.com'] },
  ];
  for (const options of mistakes) t.throws(() => createClient(options), TypeError);
});

test('requests to Latchkey follow no redirect, and others none to another origin', async (t) => {
  const seen: string[] = [];
  const hear = async (request: http.IncomingMessage) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    seen.push(`${request.method ?? ''} ${request.url ?? ''} ${request.headers.authorization ?? ''} ${body}`);
  };
  const elsewhere = await listen(
    t,
    http.createServer((request, response) => void hear(request).then(() => response.end('elsewhere'))),
  );
  let url = '';
  const server = http.createServer((request, response) => {
    const { pathname, searchParams } = new globalThis.URL(request.url ?? '', url);
    const status = Number(searchParams.get('status'));
    void hear(request).then(() => {
      if (pathname === '/good' || status === 0) return response.end('good');
      const location = { away: `${elsewhere}/?secret`, loop: request.url }[pathname.slice(1)] ?? '/good';
      return response.writeHead(status, { location }).end('moved');
    });
  });
  url = await listen(t, server);
  const client = createClient({ url, storage: sharedStorage(old, false, url).storage });
  const bearer = `Bearer ${old.access_token}`;
  const sent = async (path: string, init?: RequestInit, isRequest = false) => {
    seen.length = 0;
    const target = url + path;
    const response = await (isRequest ? client.fetch(new Request(target, init)) : client.fetch(target, init));
    return `${response.status} ${await response.text()}`;
  };

  for (const status of [301, 302, 303, 307, 308]) {
    for (const method of ['GET', 'POST']) {
      const init = { method, ...(method === 'POST' && { body: 'a book' }) };
      if (method === 'GET' || status > 303) {
        await t.rejects(sent(`/away?status=${status}`, init), { code: 'origin_not_allowed' });
        t.equal(seen.length, 1, `${status} ${method} away`);
      }
      for (const isRequest of [false, true]) {
        const isFollowed = method === 'GET' || status > 303;
        const answer = await sent(`/near?status=${status}`, init, isRequest);
        t.equal(answer, isFollowed ? '200 good' : `${status} moved`);
        t.equal(seen[1], isFollowed ? `${method} /good ${bearer} ${init.body ?? ''}` : undefined);
      }
    }
    t.equal(await sent(`/away?status=${status}`, { redirect: 'manual' }), `${status} moved`);
    await t.rejects(client.request('POST', `/near?status=${status}`, {}), { code: 'no_answer' });
  }
  // The statuses that `fetch` follows no redirect of.
  for (const status of [300, 305, 306]) t.equal(await sent(`/near?status=${status}`), `${status} moved`);
  t.equal(await sent('/away?status=304'), '304 ', 'a cached answer is good, wherever it came from');
  t.equal(await sent('/loop?status=307'), '307 moved');
  t.equal(seen.length, 21);
  const stream = { method: 'POST', body: new Blob(['a book']).stream(), duplex: 'half' } as const;
  await t.rejects(sent('/near?status=307', stream), TypeError, 'a stream is used up');
});

test('only a refresh goes past the cache', async (t) => {
  const caches: unknown[] = [];
  const server = fakeServer({
    [REFRESH]: [() => json(200, renewed)],
    [`GET ${URL}/api/user/tokens`]: [() => json(200, {})],
  });
  const fetch: typeof globalThis.fetch = (input, init) => {
    caches.push((init as { cache?: string } | undefined)?.cache);
    return server.fetch(input, init);
  };
  const client = aClient({ fetch }, sharedStorage(expired).storage);
  await client.request('GET', '/api/user/tokens');
  t.strictSame(caches, ['no-store', undefined], 'which queues requests; React Native changes the URL for it');
});

test('works below a path, and keeps its pair apart from others of the origin', async (t) => {
  const server = fakeServer({ [`POST ${URL}/id/api/auth`]: [() => json(200, renewed)] });
  const { storage, items } = sharedStorage(old);
  const client = aClient(server, storage, { url: `${URL}/id/` });
  await client.login(account);
  t.strictSame(
    [...items.keys()],
    [...sharedStorage(old).items.keys()].flatMap((key) => [key, `${key}_2fid`]),
  );
  t.strictSame(server.sent, [{ line: `POST ${URL}/id/api/auth`, token: undefined, body: account }]);
});

test('in a page, a path is one of the page', async (t) => {
  Object.assign(globalThis, { location: { origin: URL } });
  t.teardown(() => Reflect.deleteProperty(globalThis, 'location'));
  const server = fakeServer({ [`GET ${URL}/orders`]: [() => new Response('ok')] });
  const client = createClient({ storage: sharedStorage(old).storage, fetch: server.fetch });
  t.equal((await client.fetch('/orders')).status, 200);
  t.equal((await client.fetch(new globalThis.URL('/orders', URL))).status, 200);
  for (const url of ['//evil.example/', '/\\evil.example/', 'orders', 'https://evil.example/'])
    await t.rejects(client.fetch(url), { code: 'origin_not_allowed' }, url);
  Object.assign(globalThis, { location: { origin: 'null' } });
  t.throws(() => createClient(), TypeError, 'a sandboxed frame');
});

test('repeats a refused request with its method, headers and body', async (t) => {
  const refused = { ...old, stored_at: Date.now() - 60_000 };
  for (const isRequest of [false, true]) {
    const seen: unknown[] = [];
    const { fetch } = fakeServer({ [REFRESH]: [() => json(200, renewed)] });
    const client = aClient(
      {
        fetch: async (input, init) => {
          if (input === `${URL}/api/auth/refresh`) return fetch(input, init);
          const request = new Request(input, init);
          seen.push([request.method, request.headers.get('x-shop'), await request.text()]);
          return request.headers.get('authorization') === `Bearer ${renewed.access_token}`
            ? new Response('ok')
            : tokenRefused();
        },
      },
      sharedStorage(refused).storage,
    );
    const init = { method: 'POST', headers: { 'x-shop': '1', Authorization: 'Basic x' }, body: 'a book' };
    // As fetch does, it takes what is undefined from the request.
    const nothing = { headers: undefined, signal: undefined } as unknown as RequestInit;
    const answer = isRequest
      ? client.fetch(new Request(SERVICE, init), nothing)
      : client.fetch(SERVICE, init);
    t.equal((await answer).status, 200);
    t.strictSame(seen, [
      ['POST', '1', 'a book'],
      ['POST', '1', 'a book'],
    ]);
  }
});

test('hands a 401 over that a refresh cannot mend', async (t) => {
  const server = fakeServer({
    [`GET ${SERVICE}`]: [tokenRefused],
    [`POST ${SERVICE}`]: [tokenRefused],
    [REFRESH]: [() => json(200, renewed)],
  });
  const { storage } = sharedStorage({ ...old, stored_at: Date.now() - 60_000 });
  const client = aClient(server, storage);
  const body = new Blob(['a book']).stream();
  t.equal((await client.fetch(SERVICE, { method: 'POST', body, duplex: 'half' })).status, 401);
  t.strictSame(server.lines(), [`POST ${SERVICE}`], 'a stream can be sent once');
  for (let i = 0; i < 5; i++) t.equal((await client.fetch(SERVICE)).status, 401);
  t.equal(server.lines().filter((line) => line === REFRESH).length, 1, 'no loop');
});

test('however many calls wait, a refresh is sent at the pace', async (t) => {
  const { random } = Math;
  t.teardown(() => (Math.random = random));
  Math.random = () => 0.999;
  const { promise: second, resolve } = deferred();
  const server = fakeServer({
    [REFRESH]: [
      () => Promise.reject(new TypeError('nothing listens')),
      () => {
        resolve();
        return problem(503, 'unavailable', { 'retry-after': '3600' });
      },
    ],
  });
  const client = aClient(server, sharedStorage(expired).storage);
  const calls = Array.from({ length: 10 }, () => client.accessToken());
  const rejected = Promise.all(calls.map((call) => t.rejects(call, { code: 'unavailable' })));
  await second;
  await rejected;
  t.equal(server.sent.length, 2);
});

test('an answer of a cache, and an expired pair of another tab, are no good tokens', async (t) => {
  const newest = aPair({ generation: 3 });
  const replayed = fakeServer({
    [REFRESH]: [() => json(200, aPair({ generation: 0 })), () => json(200, renewed)],
  });
  t.equal(await aClient(replayed, sharedStorage(expired).storage).accessToken(), renewed.access_token);

  const { storage, put } = sharedStorage({ ...old, stored_at: Date.now() - 60_000 });
  const server = fakeServer({
    [`GET ${SERVICE}`]: [
      () => {
        put({ ...renewed, stored_at: expired.stored_at });
        return tokenRefused();
      },
      () => new Response('ok'),
    ],
    [REFRESH]: [() => json(200, newest)],
  });
  t.equal((await aClient(server, storage).fetch(SERVICE)).status, 200);
  t.strictSame(
    server.sent.map(({ token }) => token),
    [old.access_token, renewed.refresh_token, newest.access_token],
  );
});

test('a storage that never answers holds up no later call', async (t) => {
  const { setTimeout: real } = globalThis;
  t.teardown(() => Object.assign(globalThis, { setTimeout: real }));
  Object.assign(globalThis, { setTimeout: (work: () => void, ms: number) => real(work, ms / 1000) });
  const { storage } = sharedStorage(old);
  let isHung = true;
  const never = new Promise<never>(() => undefined);
  const client = aClient(fakeServer({}), {
    ...storage,
    getItem: (key) => (isHung ? never : storage.getItem(key)),
  });
  await t.rejects(client.accessToken(), { code: 'storage_failed', cause: { message: /within 10 s/ } });
  isHung = false;
  t.equal(await client.accessToken(), old.access_token);
});

test('a storage that throws, or is full, loses no session', async (t) => {
  const broken = () => {
    throw new Error('denied');
  };
  const server = fakeServer({
    [REFRESH]: [() => json(200, renewed)],
    [LOGIN]: [() => json(200, aPair({ session: 2 }))],
    [LOGOUT]: [() => json(200, {})],
  });
  const denied = aClient(server, { getItem: broken, setItem: broken, removeItem: broken });
  const calls: Promise<unknown>[] = [
    denied.accessToken(),
    denied.refresh(),
    denied.login(account),
    denied.logout(),
  ];
  for (const call of calls) await t.rejects(call, { code: 'storage_failed', cause: { message: 'denied' } });
  t.strictSame(server.sent, [], 'nothing was sent');
  t.equal(denied.session, undefined);

  const { storage, stored } = sharedStorage(expired);
  const full = aClient(server, { ...storage, setItem: broken, removeItem: broken });
  await t.rejects(full.accessToken(), { code: 'storage_failed' });
  t.equal(stored()?.refresh_token, old.refresh_token, 'which is still good: the new pair was not used');
  await t.rejects(full.login(account), { code: 'storage_failed' });
  t.strictSame(server.sent.at(-1), {
    line: LOGOUT,
    token: aPair({ session: 2 }).access_token,
    body: undefined,
  });
  await t.rejects(full.logout(), { code: 'storage_failed' });
  t.match(server.sent.at(-1), { line: LOGOUT, token: old.access_token });
});

test('a storage that is blocked, missing or full at the first pair leaves the session in memory', async (t) => {
  const denied = (): never => {
    throw new Error('denied');
  };
  const { storage, items } = sharedStorage();
  const rows: [string, ClientOptions['storage'], cause: unknown][] = [
    ['blocked', denied, { message: 'denied' }],
    ['none', () => null, undefined],
    ['nothing', () => undefined, undefined],
    ['none, as it is', null, undefined],
    ['full', { ...storage, setItem: denied }, { message: 'denied' }],
    ['full, and slow', { ...storage, setItem: () => Promise.reject(new Error('full')) }, { message: 'full' }],
  ];
  for (const [name, given, cause] of rows) {
    const told: LatchkeyError[] = [];
    const server = fakeServer({
      [LOGIN]: [() => json(200, old)],
      [REFRESH]: [() => json(200, renewed)],
      [LOGOUT]: [() => json(200, {})],
    });
    const client = aClient(server, given, {
      onError(error) {
        told.push(error);
        throw new Error('of the page');
      },
    });
    const thrown = new Promise((resolve) => process.once('unhandledRejection', resolve));
    t.match(await client.login(account), { id: 1 }, name);
    t.match(await thrown, { message: 'of the page' }, 'the error of a listener stays its own');
    t.equal(await client.accessToken(), old.access_token);
    await client.refresh();
    t.equal(await client.accessToken(), renewed.access_token, 'also the second pair');
    t.equal(told.length, 1);
    t.match(told, [
      { code: 'storage_failed', message: /a reload signs out/, ...(cause !== undefined && { cause }) },
    ]);
    await client.logout();
    t.equal(client.session, null);
    t.equal(items.size, 0);
  }
});

test('without onError, a client warns that its session is in memory', async (t) => {
  const { warn } = console;
  t.teardown(() => (console.warn = warn));
  const warned: unknown[] = [];
  console.warn = (...words: unknown[]) => warned.push(...words);
  const client = aClient(fakeServer({}), () => null);
  await t.rejects(client.accessToken(), { code: 'signed_out' });
  t.match(warned, [{ name: 'LatchkeyError', code: 'storage_failed' }]);
});

test('once a pair is stored, a failure of the storage is no reason for memory', async (t) => {
  const { storage, stored } = sharedStorage();
  let writes = 0;
  const told: unknown[] = [];
  const server = fakeServer({ [LOGIN]: [() => json(200, old)], [REFRESH]: [() => json(200, renewed)] });
  const full: TokenStorage = {
    ...storage,
    setItem(key, value) {
      if (++writes > 1) throw new Error('full');
      storage.setItem(key, value);
    },
  };
  const onError = (error: unknown) => told.push(error);
  const client = aClient(server, () => full, { onError });
  await client.login(account);
  await t.rejects(client.refresh(), { code: 'storage_failed', cause: { message: 'full' } });
  t.equal(
    stored()?.refresh_token,
    old.refresh_token,
    'another tab may send it, so the next pair was not used',
  );
  t.equal(await client.accessToken(), old.access_token);
  t.strictSame(told, []);
});

test('a write that is late may still happen, so it is no reason for memory', async (t) => {
  const { setTimeout: real } = globalThis;
  t.teardown(() => Object.assign(globalThis, { setTimeout: real }));
  Object.assign(globalThis, { setTimeout: (work: () => void, ms: number) => real(work, ms / 1000) });
  const never = () => new Promise<never>(() => undefined);
  const told: unknown[] = [];
  const server = fakeServer({ [LOGIN]: [() => json(200, old)], [LOGOUT]: [() => json(200, {})] });
  const slow = { ...sharedStorage().storage, setItem: never };
  const client = aClient(server, slow, { onError: (error) => told.push(error) });
  await t.rejects(client.login(account), { code: 'storage_failed', cause: { message: /within 10 s/ } });
  t.strictSame(server.lines(), [LOGIN, LOGOUT], 'the session has ended');
  t.strictSame(told, []);
});

test('an unknown option is a mistake', (t) => {
  const misspelt = { url: URL, storag: sharedStorage().storage } as ClientOptions;
  t.throws(() => createClient(misspelt), { name: 'TypeError', message: 'createClient has no option storag' });
  t.end();
});

test('in a page of another origin, no answer has three suspects', async (t) => {
  Object.assign(globalThis, { location: { origin: 'https://app.example.com' } });
  t.teardown(() => Reflect.deleteProperty(globalThis, 'location'));
  const away = createClient({ url: URL, fetch: fakeServer({}).fetch });
  await t.rejects(away.login(account), {
    code: 'no_answer',
    message: `no answer from ${URL}: Latchkey is away, its CORS_ORIGINS lacks https://app.example.com, or http and https are mixed`,
  });
  const own = createClient({ fetch: fakeServer({}).fetch });
  await t.rejects(own.login(account), { message: 'no answer from https://app.example.com' });
});

test('a clock that jumps ahead ends no call', async (t) => {
  const { now } = Date;
  t.teardown(() => (Date.now = now));
  const failed = () => {
    Date.now = () => now() + 86_400_000;
    return problem(503, 'unavailable');
  };
  const server = fakeServer({ [REFRESH]: [failed, () => json(200, renewed)] });
  t.equal(await aClient(server, sharedStorage(expired).storage).accessToken(), renewed.access_token);
});

test('a logout that Latchkey was not told is told by the next one', async (t) => {
  const server = fakeServer({
    [LOGOUT]: [() => problem(400, 'bad_request', { 'retry-after': '20' }), () => json(200, {})],
  });
  const client = aClient(server, sharedStorage(old).storage);
  await t.rejects(client.logout(), { code: 'bad_request' });
  t.equal(client.session, null);
  await client.logout();
  await client.logout();
  t.strictSame(
    server.sent.map(({ token }) => token),
    [old.access_token, old.access_token],
  );
});

test('two logouts at once forget no other one', async (t) => {
  const { promise, resolve } = deferred();
  const slow = () => promise.then(() => json(200, {}));
  const next = aPair({ session: 2 });
  const refused = () => problem(400, 'bad_request', { 'retry-after': '20' });
  const server = fakeServer({
    [LOGIN]: [() => json(200, next)],
    [LOGOUT]: [slow, slow, refused, () => json(200, {})],
  });
  const client = aClient(server, sharedStorage(old).storage);
  const both = [client.logout(), client.logout()];
  while (server.sent.length < 2) await new Promise(setImmediate);
  await client.login(account);
  await t.rejects(client.logout(), { code: 'bad_request' });
  resolve();
  await Promise.all(both);
  const { length } = server.sent;
  await client.logout();
  t.strictSame(
    server.sent.slice(length).map(({ token }) => token),
    [next.access_token],
  );
});

test('a logout everywhere knows the pair that an earlier try has refreshed', async (t) => {
  const line = `DELETE ${URL}/api/user/tokens`;
  const lost = () => Promise.reject(new TypeError('lost'));
  const server = fakeServer({
    [line]: [() => problem(401, 'invalid_token'), lost, () => json(200, {})],
    [REFRESH]: [() => json(200, renewed)],
  });
  await aClient(server, sharedStorage(expired).storage).logout({ everywhere: true });
  t.strictSame(server.lines(), [line, REFRESH, line, line]);
  t.equal(server.sent.at(-1)?.token, renewed.access_token);
});

test('a logout everywhere is sent before an older one, whose session may have ended', async (t) => {
  const line = `DELETE ${URL}/api/user/tokens`;
  const server = fakeServer({
    [LOGIN]: [() => json(200, aPair({ session: 2 }))],
    [LOGOUT]: [
      () => problem(400, 'bad_request', { 'retry-after': '20' }),
      () => problem(401, 'invalid_token'),
    ],
    [REFRESH]: [() => problem(401, 'invalid_token')],
    [line]: [() => json(200, {})],
  });
  const client = aClient(server, sharedStorage(old).storage);
  await t.rejects(client.logout(), { code: 'bad_request' });
  await client.login(account);
  await client.logout({ everywhere: true });
  t.strictSame(server.lines().slice(2), [line, LOGOUT, REFRESH]);
});

test('a login sends the old refresh token, and ends the session that it replaces', async (t) => {
  const next = aPair({ session: 2 });
  const server = fakeServer({
    [LOGIN]: [() => json(200, next)],
    [`POST ${URL}/api/auth/signup`]: [() => problem(400, 'username_taken', { 'x-request-id': 'r1' })],
    [LOGOUT]: [() => problem(503, 'unavailable')],
  });
  const { storage, stored } = sharedStorage(old);
  const client = aClient(server, storage);
  t.match(await client.login(account), { id: 2 });
  t.strictSame(server.sent, [
    { line: LOGIN, token: old.refresh_token, body: account },
    { line: LOGOUT, token: old.access_token, body: undefined },
  ]);
  const signup = client.signup({ ...account, name: 'Ada', email: 'ada@example.com' });
  await t.rejects(signup, { code: 'username_taken', status: 400, requestId: 'r1', errors: [] });
  t.equal(server.sent.at(-1)?.token, undefined);
  t.equal(stored()?.refresh_token, next.refresh_token);
});

test('a login with a second factor changes nothing before its second step', async (t) => {
  const next = aPair({ session: 2 });
  const asked = {
    type: 'urn:latchkey:error:second_factor_required',
    code: 'second_factor_required',
    status: 401,
    login_token: 'l1',
    methods: ['totp'],
    expires_at: '2026-01-01T00:05:00.000Z',
  };
  const line = `POST ${URL}/api/auth/second-factor`;
  const server = fakeServer({
    [LOGIN]: [() => json(401, asked)],
    [line]: [() => problem(401, 'invalid_second_factor'), () => json(200, next)],
    [LOGOUT]: [() => json(200, {})],
  });
  const { storage, stored } = sharedStorage(old);
  const client = aClient(server, storage);
  await t.rejects(client.login(account), { code: 'second_factor_required', problem: asked });
  const wrong = { login_token: 'l1', code: '000000' };
  await t.rejects(client.completeLogin(wrong), { code: 'invalid_second_factor' });
  t.equal(stored()?.refresh_token, old.refresh_token);
  t.strictSame(server.lines(), [LOGIN, line], 'neither ends the session, refreshes it or is repeated');
  const right = { login_token: 'l1', recovery_code: 'ABCD-EFGH', device: 'phone' };
  t.match(await client.completeLogin(right), { id: 2 });
  t.strictSame(server.sent.slice(1), [
    { line, token: old.refresh_token, body: wrong },
    { line, token: old.refresh_token, body: right },
    { line: LOGOUT, token: old.access_token, body: undefined },
  ]);
  t.equal(stored()?.refresh_token, next.refresh_token);
});

test('no call goes out as another user than the one who began it', async (t) => {
  const { promise, resolve } = deferred();
  const server = fakeServer({
    [REFRESH]: [() => promise.then(() => json(200, renewed))],
    [`GET ${SERVICE}`]: [() => promise.then(tokenRefused)],
  });
  const { storage, put, stored } = sharedStorage(expired);
  const waiting = aClient(server, storage).fetch(SERVICE);
  const fresh = sharedStorage(old);
  const answered = aClient(server, fresh.storage).fetch(SERVICE);
  while (server.sent.length < 2) await new Promise(setImmediate);
  const other = aPair({ session: 2, user: 8 });
  put(other);
  fresh.put(other);
  resolve();
  await t.rejects(waiting, { code: 'signed_out' });
  t.equal((await answered).status, 401);
  t.equal(server.sent.length, 2);
  t.equal(stored()?.user.id, 8, 'the login stays');
});

test('request returns the parsed answer of any operation, with the token if there is one', async (t) => {
  const server = fakeServer({
    [`GET ${URL}/api/user`]: [tokenRefused, () => json(200, { id: 7 })],
    [`POST ${URL}/api/auth/password-reset`]: [() => json(200, { msg: 'set' })],
    [`PATCH ${URL}/api/user`]: [() => new Response('<html>', { status: 403 })],
    [REFRESH]: [() => json(200, renewed)],
  });
  const signedOut = aClient(server, sharedStorage().storage);
  const reset = { reset_token: 'x', password: 'y' };
  t.strictSame(await signedOut.request('POST', '/api/auth/password-reset', reset), { msg: 'set' });
  t.strictSame(server.sent, [{ line: `POST ${URL}/api/auth/password-reset`, token: undefined, body: reset }]);
  const client = aClient(server, sharedStorage({ ...old, stored_at: Date.now() - 60_000 }).storage);
  t.strictSame(await client.request('GET', '/api/user'), { id: 7 });
  t.equal(server.sent.at(-1)?.token, renewed.access_token);
  await t.rejects(client.request('PATCH', '/api/user', {}), { code: 'unexpected_answer', status: 403 });
  await t.rejects(client.request('PUT', '/api/user'), { code: 'no_answer', cause: TypeError });
});

test('a server may create a client: it is signed out, and has no page', async (t) => {
  t.throws(() => createClient(), { name: 'TypeError', message: /^url and apis must be/ });
  const client = createClient({ url: 'http://127.0.0.1:1' });
  t.equal(client.session, undefined);
  client.onChange(() => null)();
  await t.rejects(client.accessToken(), { code: 'signed_out' });
  t.equal(client.session, null);
  await t.rejects(client.login(account), { code: 'no_answer' });
});
