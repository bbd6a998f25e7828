import { test, type Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, call, claimsOf, pairOf, refresh, signUp, verify, type Pair } from '../support/client.ts';
import { redisServersMissing, startRedis, type RedisServer } from '../support/redis-server.ts';
import { refused } from '../support/problem.ts';
import { redeem } from '../support/resets.ts';
import { aRegisteredService, basic, postForm, type TestService } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

// One account, a few of one network, or a stranger repeats each operation. docs/threat-model.md has the figures ("What an
// operation leaves").

/** What Redis has left below SHED_REDIS_MEMORY before the loops: all of them together must leave less. */
const LEFT = 2 * 1024 ** 2;
/** Repeats, and how many are under way at once. */
const TIMES = 130;
const AT_ONCE = 10;
const MEMORY = 16 * 1024 ** 2;

/** The default limits, behind a proxy. Hashing is quick here, so it bounds nothing. */
const DEFAULTS: Environment = {
  TRUST_PROXY: 'loopback',
  RATE_LIMIT_LOGIN: '30/60',
  RATE_LIMIT_SIGNUP: '20/60',
  RATE_LIMIT_ACCOUNT: '10/900',
  RATE_LIMIT_NETWORK: '100/900',
  RATE_LIMIT_SIGNUP_NETWORK: '100/3600',
  RATE_LIMIT_LLT: '100/3600',
  // A tenth, so that the loop is short.
  RATE_LIMIT_LLT_NETWORK: '100/3600',
  RATE_LIMIT_PROFILE: '60/3600',
  // A busy machine is not what this test is about.
  SHED_LAG: '0',
  REDIS_TIMEOUT: '5000',
  DATABASE_TIMEOUT: '60000',
  HASH_QUEUE_TIMEOUT: '60',
  // A superseded token is reuse at once.
  REFRESH_RETRY_WINDOW: '0',
};

interface Operation {
  name: string;
  /** Answers of 200, at most. */
  succeeds: number;
  /** What a repeat leaves in Redis if it succeeds, and if it is refused; at most, by MEMORY USAGE. */
  bytes: [good: number, refused: number];
  /** The same of events in the audit trail. A limit that is reached leaves one more. */
  events: [good: number, refused: number];
  /** Rows in PostgreSQL that a repeat leaves if it succeeds; a refused one leaves none. */
  rows: number;
  once: (user: User) => (i: number) => Promise<{ statusCode: number }>;
}

interface User extends Pair {
  target: TestApp;
  service: TestService;
  account: ReturnType<typeof anAccount>;
}

let callers = 0;

const NETWORK = { 'x-forwarded-for': '203.0.113.7' };

/** A caller of another network each time. */
function elsewhere() {
  const caller = callers++;
  return { 'x-forwarded-for': `11.${caller >> 8}.${caller & 255}.7`, 'user-agent': `Tablet/${caller}` };
}

/** Opens an account. RATE_LIMIT_SIGNUP counts by address. */
async function open(target: TestApp, payload = anAccount()): Promise<Pair> {
  return pairOf(await call(target, 'POST /api/auth/signup', { payload, headers: elsewhere() }));
}

const OPERATIONS: Operation[] = [
  {
    name: 'create and delete a long-lived token',
    succeeds: 100,
    bytes: [185, 0],
    events: [2, 0],
    rows: 1,
    once:
      ({ target, access_token: token }) =>
      async () => {
        const made = await call(target, 'POST /api/auth/llt', { token, payload: { device: 'Kitchen' } });
        const { id } = made.json<{ id?: number }>();
        if (id !== undefined) await call(target, `DELETE /api/auth/llt/${id}`, { token });
        return made;
      },
  },
  {
    name: 'the same with ten accounts of a network',
    succeeds: 100,
    bytes: [400, 0],
    events: [2, 0],
    rows: 1,
    once: ({ target }) => {
      const accounts = Promise.all(Array.from({ length: 10 }, () => open(target)));
      return async (i) => {
        const token = (await accounts)[i % 10]?.access_token;
        const options = { token, payload: { device: 'Kitchen' }, headers: NETWORK };
        const made = await call(target, 'POST /api/auth/llt', options);
        const { id } = made.json<{ id?: number }>();
        if (id !== undefined) await call(target, `DELETE /api/auth/llt/${id}`, { token });
        return made;
      };
    },
  },
  {
    name: 'change the name',
    succeeds: 60,
    bytes: [330, 115],
    events: [1, 0],
    rows: 0,
    once:
      ({ target, access_token: token }) =>
      (i) =>
        call(target, 'PATCH /api/user', { token, payload: { name: `Ada ${i}` }, headers: elsewhere() }),
  },
  {
    name: 'log in with the right password',
    succeeds: TIMES,
    bytes: [350, 0],
    events: [2, 0],
    rows: 2,
    once:
      ({ target, account: { username, password } }) =>
      () =>
        call(target, 'POST /api/auth', { payload: { username, password }, headers: elsewhere() }),
  },
  {
    name: 'guess passwords of one name',
    succeeds: 0,
    bytes: [0, 135],
    events: [0, 10 / TIMES],
    rows: 0,
    once:
      ({ target, account: { username } }) =>
      (i) =>
        call(target, 'POST /api/auth', {
          payload: { username, password: `guess ${i}` },
          headers: elsewhere(),
        }),
  },
  {
    name: 'guess passwords of many names',
    succeeds: 0,
    bytes: [0, 400],
    events: [0, 1],
    rows: 0,
    once:
      ({ target }) =>
      (i) =>
        call(target, 'POST /api/auth', {
          payload: { username: `unknown-${i}`, password: 'guess' },
          headers: elsewhere(),
        }),
  },
  {
    name: 'guess reset tokens',
    succeeds: 0,
    bytes: [0, 260],
    events: [0, 1],
    rows: 0,
    once:
      ({ target }) =>
      (i) =>
        redeem(target, `reset-${i}`, 'an analytical engine', elsewhere()),
  },
  {
    name: 'sign up',
    succeeds: TIMES,
    bytes: [790, 0],
    events: [1, 0],
    rows: 3,
    once:
      ({ target }) =>
      () =>
        call(target, 'POST /api/auth/signup', { payload: anAccount(), headers: elsewhere() }),
  },
  {
    name: 'refresh',
    succeeds: TIMES,
    bytes: [2, 0],
    events: [0, 0],
    rows: 0,
    once: ({ target, refresh_token: first }) => {
      let last = Promise.resolve(first);
      return () => {
        const answer = last.then((token) => refresh(target, token));
        last = answer.then((response) => pairOf(response).refresh_token);
        return answer;
      };
    },
  },
  {
    name: 'exchange and verify',
    succeeds: TIMES,
    bytes: [2, 0],
    events: [0, 0],
    rows: 0,
    once:
      ({ target, access_token: token }) =>
      async () => {
        const form = {
          grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
          subject_token: token,
          subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
          audience: 'orders',
        };
        const headers = { authorization: `Bearer ${token}` };
        const exchanged = await postForm(target, '/api/auth/token', null, form, headers);
        return exchanged.statusCode === 200 ? verify(target, token) : exchanged;
      },
  },
  {
    name: 'log in and out',
    succeeds: TIMES,
    bytes: [415, 0],
    events: [2, 0],
    rows: 2,
    once:
      ({ target, account: { username, password } }) =>
      async () => {
        const headers = elsewhere();
        const opened = await call(target, 'POST /api/auth', { payload: { username, password }, headers });
        const { access_token: token } = opened.json<Partial<Pair>>();
        return token === undefined ? opened : call(target, 'DELETE /api/auth', { token });
      },
  },
  {
    name: 'present a superseded refresh token',
    succeeds: TIMES,
    bytes: [420, 0],
    events: [2, 0],
    rows: 2,
    once:
      ({ target, account: { username, password } }) =>
      async () => {
        const headers = elsewhere();
        const opened = await call(target, 'POST /api/auth', { payload: { username, password }, headers });
        const { refresh_token: first } = pairOf(opened);
        await verify(target, pairOf(await refresh(target, first, headers)).access_token);
        // The second one finds the session ended.
        const answers = [
          await refresh(target, first, elsewhere()),
          await refresh(target, first, elsewhere()),
        ];
        return answers.every(({ statusCode }) => statusCode === 401) ? opened : { statusCode: 500 };
      },
  },
  {
    name: 'log in, and change the password',
    succeeds: TIMES,
    bytes: [380, 0],
    events: [2, 0],
    rows: 2,
    once: ({ target, access_token: token, account: { username, password } }) => {
      let last: Promise<unknown> = Promise.resolve();
      const change = async (i: number) => {
        const headers = elsewhere();
        const [now, next] = [i === 0 ? password : `analytical ${i}`, `analytical ${i + 1}`];
        const opened = await call(target, 'POST /api/auth', {
          payload: { username, password: now },
          headers,
        });
        const payload = { current_password: now, new_password: next };
        return opened.statusCode === 200
          ? call(target, 'POST /api/user/password', { token, payload, headers })
          : opened;
      };
      return (i) => {
        const answer = last.then(() => change(i));
        last = answer;
        return answer;
      };
    },
  },
  {
    name: 'issue reset tokens',
    succeeds: TIMES,
    bytes: [2, 0],
    events: [1, 0],
    rows: 1 / TIMES,
    once:
      ({ target, service, user }) =>
      () =>
        call(target, `POST /api/users/${user.id}/password-reset`, { headers: basic(service) }),
  },
  {
    name: 'log out again',
    succeeds: TIMES,
    bytes: [2, 0],
    events: [1 / TIMES, 0],
    rows: 0,
    once:
      ({ target, access_token: token }) =>
      () =>
        call(target, 'DELETE /api/auth', { token }),
  },
  {
    name: 'log out everywhere again',
    succeeds: TIMES,
    bytes: [2, 0],
    events: [1 / TIMES, 0],
    rows: 0,
    once:
      ({ target, access_token: token }) =>
      () =>
        call(target, 'DELETE /api/user/tokens', { token }),
  },
];

test('churn (in-process store)', (t) => churn(t, {}, null));

test('churn (Redis)', { skip: redisServersMissing }, async (t) => {
  const args = ['--maxmemory', String(MEMORY), '--maxmemory-policy', 'noeviction'];
  const redis = await startRedis(t, { args });
  await churn(t, { REDIS_URL: redis.url }, redis);
});

async function churn(t: Test, env: Environment, redis: RedisServer | null): Promise<void> {
  const target = await buildTestApp(t, { env: { ...DEFAULTS, ...env } });
  await aRegisteredService(target.databaseUrl, 'orders', [], 'orders');
  const service = await aRegisteredService(target.databaseUrl, 'desk', ['users.reset']);
  const bystander = { account: anAccount(), pair: null as Pair | null };
  bystander.pair = await signUp(target, bystander.account);
  if (redis) await fill(redis, 0.85 * MEMORY - LEFT);
  for (const operation of OPERATIONS) {
    await t.test(operation.name, (t) => repeat(t, { target, service }, redis, operation));
  }
  await t.test('a network that used its budget up', (t) => assertNetwork(t, target));

  const { username, password } = bystander.account;
  const again = pairOf(await call(target, 'POST /api/auth', { payload: { username, password } }));
  for (const { refresh_token } of [bystander.pair, again]) {
    const next = pairOf(await refresh(target, refresh_token));
    t.equal((await verify(target, next.access_token)).statusCode, 200, 'a bystander goes on');
  }
  if (redis) await t.test('present an ended token', (t) => assertNotes(t, target, redis, bystander.account));
}

/** Its living tokens stay, and other networks go on, also with the same account. */
async function assertNetwork(t: Test, target: TestApp): Promise<void> {
  const { access_token: token } = await open(target);
  const create = (headers: Record<string, string>) =>
    call(target, 'POST /api/auth/llt', { token, payload: { device: 'Kitchen' }, headers });
  const { longlived_token: llt } = (await create(elsewhere())).json<{ longlived_token: string }>();
  const full = await create({ 'x-forwarded-for': '203.0.113.9' });
  refused(t, full, 429, 'rate_limited');
  const wait = Number(full.headers['retry-after']);
  t.ok(wait > 3000 && wait <= 3600, `Retry-After: ${wait}`);
  t.equal((await verify(target, llt)).statusCode, 200);
  t.equal((await create(elsewhere())).statusCode, 200);
}

/** Of a token whose tombstone has expired. Nearly full, Redis takes none. */
async function assertNotes(
  t: Test,
  target: TestApp,
  redis: RedisServer,
  account: User['account'],
): Promise<void> {
  const login = { username: account.username, password: account.password };
  const { access_token: token } = pairOf(await call(target, 'POST /api/auth', { payload: login }));
  await call(target, 'DELETE /api/auth', { token });
  const { sid } = claimsOf(token);
  const keys = async () => (await redis.ask('KEYS', `*:t:${String(sid)}`)) as string[];
  const presented = async () => {
    for (const key of await keys()) await redis.ask('DEL', key);
    const answer = await verify(target, token);
    t.equal(answer.statusCode, 401, answer.body);
    return (await keys()).length;
  };
  t.equal(await presented(), 1);
  // This replica does not know yet how full Redis is.
  await fill(redis, 1.02 * MEMORY);
  t.equal(await presented(), 0);
  target.composition.start();
  await fill(redis, 0.95 * MEMORY);
  // Each replica looks at the memory now and then.
  await until(async () => (await presented()) === 0);
  t.equal((await call(target, 'POST /api/auth', { payload: login })).statusCode, 503);
}

async function repeat(
  t: Test,
  { target, service }: Pick<User, 'target' | 'service'>,
  redis: RedisServer | null,
  operation: Operation,
) {
  const account = anAccount();
  const once = operation.once({ target, service, account, ...(await open(target, account)) });
  // Its first use confirms the pair, or makes the counters that later ones share.
  const statuses = [(await once(0)).statusCode];
  const [bytes, events, rows] = [await bytesIn(redis), target.audit().length, await rowsIn(target)];
  for (let i = 1; i < TIMES; i += AT_ONCE) {
    const wave = Array.from({ length: Math.min(AT_ONCE, TIMES - i) }, (_, n) => once(i + n));
    for (const { statusCode } of await Promise.all(wave)) statuses.push(statusCode);
  }
  const good = statuses.filter((status) => status === 200).length;
  t.equal(good, operation.succeeds, 'repeats that succeed');
  const allowed = new Set(operation.succeeds === 0 ? [401, 429] : [200, 429]);
  t.strictSame(
    statuses.filter((status) => !allowed.has(status)),
    [],
  );
  const mayLeave = ([each, refused]: [number, number]) => each * good + refused * (TIMES - good);
  const left = (await bytesIn(redis)) - bytes;
  const audited = target.audit().length - events;
  const written = (await rowsIn(target)) - rows;
  t.comment(`${good} good, ${TIMES - good} refused: ${left} bytes, ${audited} events, ${written} rows`);
  if (redis) t.ok(left <= mayLeave(operation.bytes), `${left} of ${mayLeave(operation.bytes)} bytes`);
  t.ok(audited <= Math.ceil(mayLeave(operation.events)) + 1, `${audited} events`);
  t.ok(written <= operation.rows * good, `${written} rows`);
}

/** Fills Redis up to this many bytes of its memory, in small pieces: a large one may take 2 MB more than it holds. */
async function fill(redis: RedisServer, bytes: number): Promise<void> {
  await redis.ask('DEL', 'filler');
  const script = `
    local function used() return tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)')) end
    local piece = string.rep('x', 16000)
    while used() < tonumber(ARGV[1]) do redis.call('RPUSH', 'filler', piece) end`;
  await redis.ask('EVAL', script, 0, Math.floor(bytes));
}

/** Of all tables that a client's request adds rows to. */
async function rowsIn({ databaseUrl }: TestApp): Promise<number> {
  const tables = [
    'users',
    'tokens',
    'known_devices',
    'password_resets',
    'mailed_resets',
    'reserved_names',
    'wanted_mails',
    'email_verifications',
  ];
  const counts = tables.map((table) => `(SELECT count(*)::int FROM ${table})`).join(' + ');
  return (await sql<{ rows: number }>(databaseUrl, `SELECT ${counts} AS rows`))[0]?.rows ?? NaN;
}

/** Of all keys in Redis, without the connections' buffers. */
async function bytesIn(redis: RedisServer | null): Promise<number> {
  const sum = `local sum = 0
    for _, key in ipairs(redis.call('KEYS', '*')) do sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) end
    return sum`;
  return redis ? Number(await redis.ask('EVAL', sum, 0)) : 0;
}
