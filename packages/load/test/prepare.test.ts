import { test } from 'tap';
import { makeRunAccounts } from '../src/accounts.ts';
import type { Accounts } from '../src/arguments.ts';
import type { Call } from '../src/exchange.ts';
import { makeJudge } from '../src/judge.ts';
import { claimsOf, type Pair } from '../src/pair.ts';
import { deleteAccounts, devicesOf, findService, openAccounts } from '../src/prepare.ts';
import type { Reply } from '../src/wire.ts';
import { listAccounts, listedAccount } from './listed-accounts.ts';

function aPair(sid: number): Pair {
  const payload = Buffer.from(JSON.stringify({ sid, gen: 1, jti: `${sid}.1`, sub: String(sid) })).toString(
    'base64url',
  );
  const user = { id: sid, username: `load-${sid - 1}`, name: '', created_at: '' };
  return { access_token: `.${payload}.`, refresh_token: `.${payload}.`, user };
}

const NO_ANSWER: Reply = { status: 0, code: '', retryAfter: 0, user: null, body: null };

/** A service that gives these answers, and then 200. */
function aService(replies: Partial<Reply>[]) {
  const seen = { calls: [] as Call[], pauses: [] as number[], done: [] as number[], said: [] as string[] };
  let now = 0;
  let sid = 0;
  const at = {
    wire: {
      send: (call: Call) => {
        seen.calls.push(call);
        const body = call.path === '/api/users' ? { id: ++sid } : aPair(++sid);
        return Promise.resolve({ ...NO_ANSWER, ...(replies.shift() ?? { status: 200, code: 'ok', body }) });
      },
    },
    pause: (ms: number) => Promise.resolve([(now += ms), seen.pauses.push(ms)]),
    say: (line: string) => void seen.said.push(line),
    clock: { monotonic: () => now },
    progress: (_: string, done: number) => seen.done.push(done),
  };
  return { at, ...seen, names: () => seen.calls.map(({ body }) => (body as { username: string }).username) };
}

/** Opens accounts there, each with a session unless `sessions` says otherwise. */
async function open(
  accounts: Accounts,
  users: number,
  {
    replies = [] as Partial<Reply>[],
    sessions = users,
    signal = new AbortController().signal,
    service = aService(replies),
  } = {},
) {
  const { at, ...seen } = service;
  const run = makeRunAccounts();
  const created: number[] = [];
  const ports = { ...at, signal, run, created: (id: number) => created.push(id) };
  return { opened: await openAccounts(accounts, { users, sessions }, ports), ...seen, run, created };
}

const logIn = (users: number, replies: Partial<Reply>[], signal?: AbortSignal) =>
  open(listAccounts(users), users, { replies, ...(signal && { signal }) });

test('each listed user logs in once, and the progress is told', async (t) => {
  const { opened, names, done } = await logIn(20, []);
  t.equal(opened.filter(({ pair }) => pair).length, 20);
  t.strictSame(names().sort(), Array.from({ length: 20 }, (_, i) => listedAccount(i).username).sort());
  t.strictSame(
    done,
    Array.from({ length: 20 }, (_, i) => i + 1),
  );
});

test('an overloaded service is asked again when it says', async (t) => {
  const { opened, calls, pauses } = await logIn(1, [
    { status: 503, code: '503 overloaded', retryAfter: 3 },
    { status: 503, code: '503 overloaded', retryAfter: 900 },
    { status: 0, code: 'timeout' },
  ]);
  t.equal(opened.length, 1);
  t.equal(calls.length, 4);
  t.strictSame(pauses, [3000, 5000, 1000]);
});

test('a listed user who cannot log in ends the run with a hint', async (t) => {
  const refused = { status: 401, code: '401 invalid_credentials' };
  await t.rejects(logIn(1, [refused]), /load-0 cannot log in .*add the users to the service/);
});

const LIMITED = { status: 429, code: '429 rate_limited', retryAfter: 900 };

test('a service that limits logins says which setting to change', async (t) => {
  await t.rejects(logIn(3, [LIMITED]), /RATE_LIMIT_ALLOW/);
});

const always = (reply: Partial<Reply>) => Array.from({ length: 200 }, () => reply);

test('a service that fails without end is given up, and the terminal says what is waited for', async (t) => {
  for (const [status, code] of [
    [0, 'timeout'],
    [500, '500'],
    [429, '429'],
  ] as const) {
    const ok = { status: 200, code: 'ok', body: aPair(1) };
    const service = aService([ok, ...always({ status, code })]);
    const problem = `no success for 60 s: POST /api/auth: ${code}`;
    await t.rejects(open(listAccounts(20), 20, { service }), { message: problem });
    t.strictSame(service.said, [`waiting for the service, at most 60 s: POST /api/auth: ${code}`]);
  }
  const { at, calls } = aService(always({ status: 503, code: '503 unavailable' }));
  await t.rejects(deleteAccounts([7], client, at), /no success for 60 s: DELETE \/api\/users\/7: 503 /);
  t.ok(calls.length < 100);
});

test('a service that succeeds now and then is not given up', async (t) => {
  const ok = { status: 200, code: 'ok', body: aPair(1) };
  const replies = Array.from({ length: 150 }, (_, i) => (i % 50 === 49 ? ok : { status: 503, code: '503' }));
  t.equal((await logIn(1, replies)).opened.length, 1);
  t.equal((await logIn(5, [...replies])).opened.length, 5);
});

test('a run that is stopped before it begins says so', async (t) => {
  await t.rejects(logIn(1, [], AbortSignal.abort()), /stopped before the run/);
});

const client = { clientId: 'lkc_1', secret: 'lks_1' };

test('a client creates the accounts with a secret password, and deletes them', async (t) => {
  const { opened, calls, created, run } = await open({ from: 'client', client }, 9, { sessions: 3 });
  const creations = calls.filter(({ path }) => path === '/api/users');
  t.strictSame(
    creations.map(({ client: by }) => by),
    Array.from({ length: 9 }, () => client),
  );
  t.equal(calls.length, 12, 'only those who need a session log in');
  t.equal(opened.filter(({ pair }) => pair).length, 3);
  t.equal(new Set(created).size, 9);
  t.ok(opened.every(({ account }) => account.username.startsWith(run.prefix)));
  t.not(makeRunAccounts().account(0).password, run.account(0).password);

  const { at, calls: deletions } = aService([{ status: 404, code: '404 user_unknown' }]);
  await deleteAccounts([7, 8], client, at);
  t.strictSame(
    deletions.map(({ method, path, client: by }) => [method, path, by]),
    [7, 8].map((id) => ['DELETE', `/api/users/${id}`, client]),
  );
});

test('a creation whose answer was lost counts', async (t) => {
  const replies = [{}, { status: 400, code: '400 username_taken' }];
  const { opened, created } = await open({ from: 'client', client }, 1, { replies });
  t.ok(opened[0]?.pair);
  t.strictSame(created, []);
});

test('a client that may not, one that is unknown, and an edge that is closed are told apart', async (t) => {
  const closed = /^POST \/api\/users is 40\d.* an edge leaves it closed.*--sign-up or --accounts.*inside/;
  for (const [code, hint] of [
    ['401 invalid_client', /LATCHKEY_CLIENT_SECRET/],
    ['403 right_missing', /client allow NAME users\.write/],
    // nginx, Caddy's forward auth, and a mesh.
    ['404', closed],
    ['401 token_missing', closed],
    ['403', closed],
  ] as const) {
    const service = aService([{ status: Number(code.slice(0, 3)), code }]);
    await t.rejects(open({ from: 'client', client }, 100, { service }), hint);
    t.ok(service.calls.length < 20, `${service.calls.length} requests: it stops`);
  }
});

test('signups go as far as their limits allow', async (t) => {
  const ok = (sid: number) => ({ status: 200, code: 'ok', body: aPair(sid) });
  const { opened, calls } = await open({ from: 'sign-up' }, 20, { replies: [ok(1), ok(2), LIMITED] });
  t.ok(opened.length >= 2 && opened.length < 20 && calls.length < 20, `${opened.length} of 20`);
  t.ok(opened.every(({ pair }) => pair));
  await t.rejects(open({ from: 'sign-up' }, 1, { replies: [LIMITED] }), /limits signups.*RATE_LIMIT_ALLOW/);
  const off = { status: 403, code: '403 signup_disabled' };
  await t.rejects(
    open({ from: 'sign-up' }, 1, { replies: [off] }),
    /allows no signup \(403 signup_disabled\)/,
  );
});

test('another server is not taken for the service', async (t) => {
  const find = (reply: Partial<Reply>) => findService('http://there', aService([reply]).at.wire);
  await t.resolves(find({ status: 401, code: '401 missing_token' }));
  await t.rejects(find({ status: 404, code: '404' }), /no Latchkey at http:..there.*Check --url/);
  await t.rejects(find({ code: 'no answer (ECONNREFUSED)' }), /does not answer: no answer .*Check --url/);
});

test('tokens that cannot be read end the run with a hint', (t) => {
  const [account, pair] = [listedAccount(0), { ...aPair(1), access_token: 'none' }];
  t.throws(() => devicesOf([{ account, pair }], makeJudge()), {
    name: 'LoadError',
    message: /Check .*--url$/,
  });
  t.end();
});

test('devices belong to the users in order, and the judge knows their sessions', (t) => {
  const judge = makeJudge();
  const users = [aPair(1), aPair(2), undefined].map((pair, i) => ({ account: listedAccount(i), pair }));
  const devices = devicesOf(users, judge);
  t.strictSame(
    devices.map(({ account, pair }) => [account.username, pair && claimsOf(pair.access_token).sid]),
    [
      ['load-0', 1],
      ['load-1', 2],
      ['load-2', undefined],
    ],
  );
  t.equal(judge.judged().pairs_issued, 2);
  t.equal(judge.correctness().wrong_user, 0);
  t.end();
});
