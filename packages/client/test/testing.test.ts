import { test } from 'tap';
import { LatchkeyError } from '../src/main.ts';
import { testServer } from '../src/testing/main.ts';

const ADA = { username: 'ada', password: 'difference engine', roles: ['editor'] };
const login = { username: 'ada', password: ADA.password };

test('a page’s test signs a user in and out, with real clients', async (t) => {
  const server = testServer({ users: [ADA] });
  const { client, end } = server;
  const [one, other] = [client(), client({ apis: ['https://shop.example.com'] })];
  t.match(await one.login({ ...login, device: 'Phone' }), {
    id: 1,
    user: { username: 'ada', roles: ['editor'] },
  });
  await other.login(login);
  const { tokens } = await one.request('GET', '/api/user/tokens');
  t.strictSame(
    tokens.map(({ id, current }) => [id, current]),
    [
      [1, true],
      [2, false],
    ],
  );
  const profile = await (await one.fetch(new Request(`${server.url}/api/user`))).json();
  t.match(profile, { username: 'ada' });
  end(1);
  await t.rejects(one.refresh(), { code: 'invalid_token' });
  t.equal(one.session, null);
  t.equal((await other.refresh()).id, 2);
  t.throws(() => {
    end(3);
  }, RangeError);
  await t.rejects(testServer().client().login(login), { code: 'invalid_credentials' });
});

test('its users log in by names as they were given, and a mistake in them is a TypeError', async (t) => {
  const { client } = testServer({ users: [{ ...ADA, username: 'Ada', email: 'Ada@Example.com' }] });
  for (const username of ['Ada', 'ada', 'ADA@example.com'])
    t.match((await client().login({ ...login, username })).user, { username: 'ada', name: 'Ada' });
  t.throws(() => testServer({ user: [ADA] } as never), {
    message: 'testServer has no option user: use users',
  });
  for (const user of [{ username: 'ada' }, { password: ADA.password }])
    t.throws(() => testServer({ users: [user as never] }), TypeError);
});

test('an outage is one of Latchkey', async (t) => {
  const { client, outage } = testServer({ users: [ADA] });
  const page = client();
  outage(true);
  await t.rejects(page.login(login), { code: 'unavailable', status: 503, retryAfter: 1 });
  outage(false);
  t.equal((await page.login(login)).id, 1);
});

test('an operation is refused once, with each of its codes', async (t) => {
  const { client, refuse } = testServer({ users: [ADA] });
  const page = client();
  refuse('logIn', 'rate_limited');
  refuse('logIn', 'second_factor_required');
  await t.rejects(page.login(login), { code: 'rate_limited', status: 429, retryAfter: 1 });
  await t.rejects(page.login({ ...login, password: 'wrong' }), { code: 'invalid_credentials' });
  const asked: unknown = await page.login(login).catch((error: unknown) => error);
  t.match(asked, { code: 'second_factor_required', problem: { methods: ['totp', 'recovery_code'] } });
  if (!(asked instanceof LatchkeyError)) throw new Error('another class');
  const { login_token = '' } = asked.problem ?? {};
  refuse('completeLogin', 'invalid_second_factor');
  await t.rejects(page.completeLogin({ login_token, code: '000000' }), { code: 'invalid_second_factor' });
  t.equal((await page.completeLogin({ login_token, code: '123456' })).id, 1);
  await t.rejects(page.completeLogin({ login_token, code: '123456' }), { code: 'invalid_login_token' });

  const create = () => page.request('POST', '/api/auth/llt', { device: 'Tablet' });
  refuse('createLongLivedToken', 'login_too_old');
  await t.rejects(create(), { code: 'login_too_old', status: 403 });
  t.match(await create(), { id: 2 });
  t.throws(
    () => {
      refuse('getProfile', 'login_too_old' as 'invalid_token');
    },
    { message: 'getProfile never answers login_too_old' },
  );
});

test('what is no operation of the testing server gets no answer', async (t) => {
  const { client, fetch, url } = testServer({ users: [ADA] });
  const page = client();
  for (const path of ['/api/users', '/api/auth/verify'])
    await t.rejects(page.request('GET', path), {
      code: 'no_answer',
      cause: { message: /has no operation GET/ },
    });
  await t.rejects(fetch('https://shop.example.com/orders'), { message: new RegExp(`is at ${url}`) });
  await t.rejects(fetch(`${url}/api/user`, { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('the testing server needs no Response, as in jsdom', async (t) => {
  const { Response } = globalThis;
  t.teardown(() => Object.assign(globalThis, { Response }));
  Reflect.deleteProperty(globalThis, 'Response');
  const { client, fetch, url } = testServer({ users: [ADA] });
  const page = client();
  await page.login(login);
  t.equal((await page.refresh()).id, 1);
  const answer = await fetch(`${url}/api/user`);
  t.strictSame([answer.ok, answer.headers.get('WWW-Authenticate')], [false, 'Bearer']);
  t.match(await answer.json(), { code: 'token_missing' });
});
